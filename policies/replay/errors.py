"""What can go wrong in the replay lab. All terminal: the same table gives the same answer.

PolicyError
└── ReplayError            base: names the data set, the value, the allowed values and the fix
    ├── DatasetUnknown     no outcome is recorded under that name
    ├── DuplicateCell      one query and arm comes twice
    ├── CorrectnessInvalid correctness outside 0..1
    ├── EnergyInvalid      energy that is zero, negative or not finite
    ├── MixedEvidence      joules of more than one evidence class in one column
    ├── ArmUnknown         an arm that the table has not
    ├── QueryLeaked        a held-out query that the training part has, too
    ├── EmbeddingInvalid   embeddings that are not finite, or not one row per query
    ├── TextMissing        an embedding needs texts that no source tells
    ├── EmbedderUnavailable an embedding of no known name, or one whose packages are not installed
    ├── ConditionUnknown   no measured window for that GPU, batch, zone or hour
    ├── NothingToLearn     a training part in which no policy can tell arms apart (empty, all wrong, all tied)
    ├── TrainerUnavailable the extra joulebook[trl] or a GPU is not there
    ├── WeightsMissing     weights of a language model that are not on this machine
    ├── RouterInvalid      a folder or file that holds no trained router, or not the one it says
    ├── PolicyUnknown      a policy name that no family answers to, or one name twice
    ├── BudgetUnreachable  a joule budget below what the cheapest routing of the training part takes
    ├── RewardsIncomparable rewards of different weights, which are different measures
    └── OutputsMissing     a diagnostic that compares the arms' outputs, and the table has none
"""

from __future__ import annotations

from policies.errors import PolicyError


class ReplayError(PolicyError):
    pass


class DatasetUnknown(ReplayError):
    pass


class DuplicateCell(ReplayError):
    pass


class CorrectnessInvalid(ReplayError):
    pass


class EnergyInvalid(ReplayError):
    pass


class MixedEvidence(ReplayError):
    pass


class ArmUnknown(ReplayError):
    pass


class QueryLeaked(ReplayError):
    pass


class EmbeddingInvalid(ReplayError):
    pass


class TextMissing(ReplayError):
    pass


class EmbedderUnavailable(ReplayError):
    pass


class ConditionUnknown(ReplayError):
    pass


class NothingToLearn(ReplayError):
    pass


class TrainerUnavailable(ReplayError):
    pass


class WeightsMissing(ReplayError):
    pass


class RouterInvalid(ReplayError):
    pass


class PolicyUnknown(ReplayError):
    pass


class BudgetUnreachable(ReplayError):
    pass


class OutputsMissing(ReplayError):
    pass


class RewardsIncomparable(ReplayError):
    pass
