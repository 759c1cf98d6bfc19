"""The least whole number that will do."""

from __future__ import annotations

from collections.abc import Callable

LARGEST = 10_000_000


def least(does: Callable[[int], bool], start: int, *, refuse: Callable[[int], Exception]) -> int:
    """The least n from `start` on with `does(n)`, where every larger one does, too. Raises what `refuse` makes."""
    if does(start):
        return start
    low, step = start, 1
    while not does(low + step):
        low, step = low + step, 2 * step
        if low + step > LARGEST:
            raise refuse(low)
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if does(middle) else (middle, high)
    return high
