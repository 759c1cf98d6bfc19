"""Why there is no document. All terminal: the same export of the same state fails again.

RecommendError
├── ExportInvalid          the asking or the mapping is wrong, or a format cannot say this change
│   ├── MappingInvalid     the mapping is malformed or contradicts itself
│   ├── MappingMissing     the mapping does not name something the format needs; says what to write
│   ├── ObjectMismatch     the object before the change does not route as the recommendation's frozen content says
│   └── NotExpressible     the format cannot carry this change; says which can
└── NotAllowed
    └── ExportNotAllowed   state, expiry, stage, largest step or eligibility forbid it
        └── NotEligible    a backend outside the eligible set would receive traffic
"""

from __future__ import annotations

from policies.recommend.errors import NotAllowed, RecommendError


class ExportInvalid(RecommendError):
    pass


class MappingInvalid(ExportInvalid):
    pass


class MappingMissing(ExportInvalid):
    pass


class ObjectMismatch(ExportInvalid):
    pass


class NotExpressible(ExportInvalid):
    pass


class ExportNotAllowed(NotAllowed):
    pass


class NotEligible(ExportNotAllowed):
    pass
