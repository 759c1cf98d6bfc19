"""The learned controller: a small softmax policy, warmed on oracle labels, then trained on the gated reward (GRPO).

After arXiv 2609.23085, which fine-tunes a causal language model; here a linear policy over text embeddings, trained
from the outcome table on a CPU.
"""

from policies.replay.controller.policy import LAMBDAS, Controller, lambdas_per_j, one, policies
from policies.replay.controller.settings import Settings
from policies.replay.controller.trained import Trained, from_bytes
from policies.replay.controller.training import train

__all__ = ["LAMBDAS", "Controller", "Settings", "Trained", "from_bytes", "lambdas_per_j", "one", "policies", "train"]
