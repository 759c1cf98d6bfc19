"""Power and throughput of serving instances: forms, profiles, published figures, calibration on measured windows."""

from policies.fleet.power.context import ContextStudy
from policies.fleet.power.models import Array, Linear, Logistic, PowerModel, Table, power_model
from policies.fleet.power.profiles import Profile, profile
from policies.fleet.power.published import PUBLISHED, STUDIES, for_hardware, published

__all__ = [
    "PUBLISHED",
    "STUDIES",
    "Array",
    "ContextStudy",
    "Linear",
    "Logistic",
    "PowerModel",
    "Profile",
    "Table",
    "for_hardware",
    "power_model",
    "profile",
    "published",
]
