"""What can go wrong in a policy. All terminal: a policy is pure, so trying again gives the same answer.

    PolicyError
    ├── RequestInvalid      the question itself: an unknown category, a tier outside 1..3
    ├── ParametersInvalid   weights, factors or budgets that make no sense
    ├── ReferenceMissing    configuration names an offer that the catalog does not offer (any more)
    └── FrontInvalid        points of a Pareto front that are not finite numbers of one shape

That nothing fits a request is not an error but an answer: `policies.router.HandBack`.
"""

from __future__ import annotations


class PolicyError(Exception):
    """Base of all policy errors: a message and a fix in words."""

    transient = False

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.message} Fix: {self.fix}" if self.fix else self.message


class RequestInvalid(PolicyError):
    pass


class ParametersInvalid(PolicyError):
    pass


class ReferenceMissing(PolicyError):
    pass


class FrontInvalid(PolicyError):
    pass
