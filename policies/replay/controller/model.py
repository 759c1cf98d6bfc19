"""A small softmax policy in plain numpy: linear, or with one hidden layer of tanh; Adam.

Products are `einsum` and not BLAS, whose sums may depend on the number of threads: one seed, one answer, bit for bit.
Adam: Kingma and Ba, arXiv 1412.6980.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.replay.table import Bools, Floats

Parameters = tuple[Floats, ...]
TINY = 1e-300


def initial(width: int, arms: int, hidden: int, rng: np.random.Generator) -> Parameters:
    """(W, b), or (W1, b1, W2, b2) with a hidden layer. The output layer starts at 0: all arms alike."""
    if not hidden:
        return np.zeros((width, arms)), np.zeros(arms)
    first = rng.normal(0.0, 1.0 / np.sqrt(max(width, 1)), (width, hidden))
    return first, np.zeros(hidden), np.zeros((hidden, arms)), np.zeros(arms)


def forward(parameters: Parameters, x: Floats) -> tuple[Floats, Floats]:
    """((N, K) logits, (N, H) activations of the hidden layer, or `x` itself where there is none)."""
    h = x if len(parameters) == 2 else np.tanh(_times(x, parameters[0]) + parameters[1])
    return _times(h, parameters[-2]) + parameters[-1], h


def backward(parameters: Parameters, x: Floats, h: Floats, d_logits: Floats, l2: float) -> Parameters:
    """Gradient of the loss, given that of the logits (N, K), with l2/2 x squared weights; constants go free."""
    output = np.einsum("nh,nk->hk", h, d_logits) + l2 * parameters[-2]
    constant = d_logits.sum(axis=0)
    if len(parameters) == 2:
        return output, constant
    d_hidden = _times(d_logits, parameters[-2].T) * (1.0 - h * h)
    return np.einsum("nd,nh->dh", x, d_hidden) + l2 * parameters[0], d_hidden.sum(axis=0), output, constant


def penalty(parameters: Parameters, l2: float) -> float:
    return 0.5 * l2 * float(sum((w * w).sum() for w in parameters[::2]))


def softmax(logits: Floats, allowed: Bools | None = None) -> Floats:
    """(N, K) probabilities; arms that are not `allowed` get 0. Every row needs one that is."""
    z = logits if allowed is None else np.where(allowed, logits, -np.inf)
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def log(p: Floats) -> Floats:
    return np.log(np.maximum(p, TINY))


def kl(p: Floats, reference: Floats) -> Floats:
    """(N,) KL(p || reference) in nats, exact: there are only K arms."""
    return np.asarray((p * (log(p) - log(reference))).sum(axis=1))


def entropies(p: Floats) -> Floats:
    """(N,) entropy of each row in nats."""
    return np.asarray(-(p * log(p)).sum(axis=1))


@dataclass
class Adam:
    """Steps of Adam over a tuple of arrays."""

    rate: float
    first: list[Floats]
    second: list[Floats]
    steps: int = 0

    @classmethod
    def over(cls, parameters: Parameters, rate: float) -> Adam:
        return cls(rate, [np.zeros_like(p) for p in parameters], [np.zeros_like(p) for p in parameters])

    def step(self, parameters: Parameters, gradient: Parameters) -> Parameters:
        self.steps += 1
        ahead, scale = 1 - 0.9**self.steps, 1 - 0.999**self.steps
        found = []
        for at, (p, g) in enumerate(zip(parameters, gradient, strict=True)):
            self.first[at] = 0.9 * self.first[at] + 0.1 * g
            self.second[at] = 0.999 * self.second[at] + 0.001 * g * g
            found.append(p - self.rate * (self.first[at] / ahead) / (np.sqrt(self.second[at] / scale) + 1e-8))
        return tuple(found)


def _times(a: Floats, b: Floats) -> Floats:
    return np.asarray(np.einsum("nd,dk->nk", a, b))
