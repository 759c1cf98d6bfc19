"""Training of the language-model router with TRL: SFT on oracle labels, then GRPO or KL-GRPO on the gated reward.

Model files are I/O, so this stands in `app`; what is pure is in `policies/replay/trl`. Nothing here imports torch
before it is asked to train or to route. The rest of the desk calls what is listed here.
"""

from app.trl_training.run import load_policy, train_router
from app.trl_training.settings import TrainSettings

__all__ = ["TrainSettings", "load_policy", "train_router"]
