"""What can go wrong with a recommendation. All terminal: the same command on the same state fails again.

PolicyError
└── RecommendError
    ├── RevisionMissing   a command without the revision it saw
    ├── RevisionStale     a command based on an older revision; nothing was written
    ├── KeyReused         an idempotency key that already stands for another command
    ├── NotAllowed        the state, a guardrail or the order of reports forbids the command
    ├── TargetUnknown     a target that the recommendation does not name
    └── OutcomeInvalid    a reported outcome that contradicts itself
"""

from __future__ import annotations

from policies.errors import PolicyError


class RecommendError(PolicyError):
    """Base of all errors of the recommendation lifecycle."""


class RevisionMissing(RecommendError):
    pass


class RevisionStale(RecommendError):
    pass


class KeyReused(RecommendError):
    pass


class NotAllowed(RecommendError):
    pass


class TargetUnknown(RecommendError):
    pass


class OutcomeInvalid(RecommendError):
    pass
