"""Power and throughput of serving instances: forms, profiles, published figures, calibration on measured windows."""

from policies.fleet.power.calibration import BEST, Calibration, Prediction, best, calibrate, calibrate_each
from policies.fleet.power.context import ContextStudy
from policies.fleet.power.curves import FORMS, QUANTITIES
from policies.fleet.power.holdout import HoldoutTable, holdout_table, markdown, table_data
from policies.fleet.power.models import Array, Linear, Logistic, PowerModel, Table, power_model
from policies.fleet.power.profiles import Profile, profile
from policies.fleet.power.published import PUBLISHED, STUDIES, for_hardware, published
from policies.fleet.power.report import against, band, calibration_report, prediction_rows
from policies.fleet.power.stored import power_model_of, profile_of, read_calibration, read_calibrations, row
from policies.fleet.power.windows import (
    Binding,
    IdleBoard,
    MeasuredWindow,
    bindings,
    idle_boards,
    read_windows,
    unbound,
)

__all__ = [
    "BEST",
    "FORMS",
    "PUBLISHED",
    "QUANTITIES",
    "STUDIES",
    "Array",
    "Binding",
    "Calibration",
    "ContextStudy",
    "HoldoutTable",
    "IdleBoard",
    "Linear",
    "Logistic",
    "MeasuredWindow",
    "PowerModel",
    "Prediction",
    "Profile",
    "Table",
    "against",
    "band",
    "best",
    "bindings",
    "calibrate",
    "calibrate_each",
    "calibration_report",
    "for_hardware",
    "holdout_table",
    "idle_boards",
    "markdown",
    "power_model",
    "power_model_of",
    "prediction_rows",
    "profile",
    "profile_of",
    "published",
    "read_calibration",
    "read_calibrations",
    "read_windows",
    "row",
    "table_data",
    "unbound",
]
