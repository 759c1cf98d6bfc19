"""What can go wrong in a proof. All terminal: the same figures give the same answer.

    PolicyError
    └── ProofError               base: names the figure, the value, the allowed values and the fix
        ├── CountsInvalid        counts that are negative, not whole, or that contradict their total
        ├── NoData               n = 0, or no request at all: nothing can be bounded
        ├── ValuesInvalid        an array with NaN, infinity, negative amounts or more than one dimension
        ├── LengthsDiffer        arrays of one contrast that do not describe the same requests
        ├── ConfidenceInvalid    a confidence, a probability or a power outside (0, 1)
        ├── MarginsInvalid       margins that no evidence could be judged against
        ├── EvidenceMixed        one contrast of several evidence classes, meter classes or kinds of outcome
        └── StratumMissing       a fixed reference mix whose stratum holds no request

Missing evidence is not an error of the gate: `policies.proof.gate.judge` answers INCONCLUSIVE and says why.
"""

from __future__ import annotations

from policies.errors import PolicyError


class ProofError(PolicyError):
    pass


class CountsInvalid(ProofError):
    pass


class NoData(ProofError):
    pass


class ValuesInvalid(ProofError):
    pass


class LengthsDiffer(ProofError):
    pass


class ConfidenceInvalid(ProofError):
    pass


class MarginsInvalid(ProofError):
    pass


class EvidenceMixed(ProofError):
    pass


class StratumMissing(ProofError):
    pass
