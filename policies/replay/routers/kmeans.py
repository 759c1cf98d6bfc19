"""k-means with k-means++ seeding (Arthur & Vassilvitskii, 2007) and Lloyd's iteration; deterministic under a seed."""

from __future__ import annotations

import numpy as np

from policies.replay.table import Floats, Ints

RESTARTS, ITERATIONS = 4, 50
TOLERANCE = 1e-4  # relative gain of inertia below which an iteration is the last
FIT_ROWS = 200_000  # beyond this a seeded sample fits the centroids


def kmeans(points: Floats, k: int, seed: int) -> Floats:
    """(k', D) centroids of (N, D) points, k' <= k where fewer points are distinct; the best of a few restarts."""
    rng = np.random.default_rng(seed)
    if len(points) > FIT_ROWS:
        points = points[np.sort(rng.choice(len(points), FIT_ROWS, replace=False))]
    found = [_lloyd(points, _plus_plus(points, k, rng)) for _ in range(RESTARTS)]
    return min(found, key=lambda pair: pair[1])[0]


def assign(points: Floats, centroids: Floats) -> Ints:
    """(N,) index of the nearest centroid; ties go to the lower index."""
    return np.asarray(_distances(points, centroids).argmin(axis=1), dtype=np.int64)


def _plus_plus(points: Floats, k: int, rng: np.random.Generator) -> Floats:
    chosen = [int(rng.integers(len(points)))]
    distance = _distances(points, points[chosen])[:, 0]
    distance[chosen[0]] = 0.0
    while len(chosen) < min(k, len(points)):
        distance[distance < 1e-12] = 0.0  # copies of a chosen point
        if (total := distance.sum()) <= 0:
            break
        chosen.append(int(rng.choice(len(points), p=distance / total)))
        distance = np.minimum(distance, _distances(points, points[chosen[-1:]])[:, 0])
    return np.array(points[chosen])


def _lloyd(points: Floats, centroids: Floats) -> tuple[Floats, float]:
    """Centroids and their inertia. A centroid that loses all its points stays where it was."""
    inertia = np.inf
    for _ in range(ITERATIONS):
        distance = _distances(points, centroids)
        label, before, inertia = distance.argmin(axis=1), inertia, float(distance.min(axis=1).sum())
        if before - inertia <= TOLERANCE * inertia:
            break
        n = np.bincount(label, minlength=len(centroids))
        member = np.ascontiguousarray(np.eye(len(centroids))[:, label])
        centroids = np.where(n[:, None] > 0, member @ points / np.maximum(n, 1)[:, None], centroids)
    return centroids, inertia


def _distances(points: Floats, centroids: Floats) -> Floats:
    """(N, k) squared Euclidean distances."""
    own = np.einsum("nd,nd->n", points, points)[:, None]
    square = own - 2.0 * points @ centroids.T + np.einsum("kd,kd->k", centroids, centroids)
    return np.asarray(np.maximum(square, 0.0))
