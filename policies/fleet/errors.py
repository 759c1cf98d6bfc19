"""What can go wrong in the fleet. All terminal: the same question gives the same answer.

PolicyError
└── FleetError               base: names the thing, the value, the allowed values and the fix
    ├── HardwareUnknown      a GPU that no profile is about
    ├── ProfileUnknown       a profile name that nothing answers to
    ├── ProfileInvalid       parameters that no machine can have: negative watts, no boards, no source
    ├── ProfileIncomplete    a needed parameter that the profile does not know
    ├── ExtrapolationRefused concurrency or context outside what was measured
    ├── CalibrationTooSmall  too few windows, or too few distinct concurrencies
    ├── CalibrationFailed    a fit that does not converge, or that its windows do not determine
    ├── WindowInvalid        a measured window without the figure that the fit needs
    ├── TraceInvalid         an empty or unsorted trace, lengths that are zero or not numbers
    ├── TraceUnknown         a trace or a distribution of lengths that the warehouse does not hold
    ├── QueueInvalid         rates, servers or quantiles that no queue can have
    ├── SloUnreachable       an SLO that no number of instances meets
    ├── CapacityZero         a pool or fleet that cannot serve a single request
    ├── EligibleSetEmpty     no backend may serve the request
    ├── ScenarioInvalid      a scenario that says what no fleet can be, or what nobody can read
    └── ComparisonRefused    tokens per joule across models without control of quality
"""

from __future__ import annotations

from policies.errors import PolicyError


class FleetError(PolicyError):
    pass


class HardwareUnknown(FleetError):
    pass


class ProfileUnknown(FleetError):
    pass


class ProfileInvalid(FleetError):
    pass


class ProfileIncomplete(FleetError):
    pass


class ExtrapolationRefused(FleetError):
    pass


class CalibrationTooSmall(FleetError):
    pass


class CalibrationFailed(FleetError):
    pass


class WindowInvalid(FleetError):
    pass


class TraceInvalid(FleetError):
    pass


class TraceUnknown(FleetError):
    pass


class QueueInvalid(FleetError):
    pass


class SloUnreachable(FleetError):
    pass


class CapacityZero(FleetError):
    pass


class EligibleSetEmpty(FleetError):
    pass


class ScenarioInvalid(FleetError):
    pass


class ComparisonRefused(FleetError):
    pass
