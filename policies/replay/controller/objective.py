"""Losses of the two stages and their gradients with respect to the logits.

Supervised: cross entropy on oracle labels. Reinforced: the clipped surrogate of group relative policy optimisation
(GRPO; Shao et al., arXiv 2402.03300) on rewards looked up in the outcome table. For query i, arm a:

    A = (r - m_i) / s         m_i: mean reward of the group
    L = - sum_a w_a min(rho_a A_a, clip(rho_a, 1 - c, 1 + c) A_a) + beta KL(pi || reference),   rho = pi / pi_old

`w` is how often an arm came among G sampled ones, over G. As the table knows the reward of every arm, the group can
also be all arms with w = pi_old: the same estimator in the limit of an endless group, without its noise.

`scale` says what s is (names as in TRL's `scale_rewards`):
"group"  the deviation within the group, as GRPO was published. A query that every arm has right then weighs as much
         as one that only the dear arm has right, whatever lambda: its small differences are blown up to unit size.
"batch"  one deviation over the whole batch: rewards keep their relative size. The default.
"none"   1, as in Dr. GRPO (Liu et al., arXiv 2503.20783).
"""

from __future__ import annotations

import numpy as np

from policies.replay.controller.model import kl, log
from policies.replay.table import Bools, Floats

SMALL = 1e-9


def cross_entropy(p: Floats, target: Floats) -> tuple[float, Floats]:
    """(mean loss, (N, K) its gradient) of probabilities `p` against `target` distributions."""
    return float(-(target * log(p)).sum() / len(p)), (p - target) / len(p)


def sampled_group(p: Floats, size: int, rng: np.random.Generator) -> Floats:
    """(N, K) share of each arm among `size` draws from each row of `p`. An arm of probability 0 is never drawn."""
    if not len(p):
        return np.zeros_like(p)
    return np.asarray(rng.multinomial(size, p / p.sum(axis=1, keepdims=True)) / size, dtype=np.float64)


def advantages(rewards: Floats, weight: Floats, scale: str) -> Floats:
    """(N, K) advantages of arms with `weight` (N, K; rows sum to 1); 0 where all rewards of the group are equal.

    `rewards` must be finite where `weight` is above 0.
    """
    known = np.where(weight > 0, rewards, 0.0)
    away = np.where(weight > 0, known - (weight * known).sum(axis=1, keepdims=True), 0.0)
    variance = (weight * away * away).sum(axis=1, keepdims=True)
    if scale == "batch":
        variance = np.full_like(variance, variance.mean()) if len(variance) else variance
    if scale == "none":
        return away
    return np.asarray(np.divide(away, np.sqrt(variance), out=np.zeros_like(away), where=variance > SMALL))


def surrogate(
    p: Floats, old: Floats, weight: Floats, advantage: Floats, clip: float, beta: float, reference: Floats | None
) -> tuple[float, Floats]:
    """(mean loss, (N, K) its gradient with respect to the logits of `p`)."""
    n = max(len(p), 1)
    ratio = np.divide(p, old, out=np.ones_like(p), where=old > 0)
    plain, clipped = ratio * advantage, np.clip(ratio, 1 - clip, 1 + clip) * advantage
    live: Bools = plain <= clipped  # where the minimum is the clipped one, it no longer moves
    loss = -float((weight * np.minimum(plain, clipped)).sum()) / n
    pull = weight * np.where(live, plain, 0.0)
    gradient = -(pull - p * pull.sum(axis=1, keepdims=True)) / n
    if beta and reference is not None:
        apart = kl(p, reference)
        loss += beta * float(apart.mean())
        gradient += beta * p * (log(p) - log(reference) - apart[:, None]) / n
    return loss, gradient
