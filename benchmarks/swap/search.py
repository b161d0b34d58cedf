"""The largest size that fits, by trial."""

from __future__ import annotations

from collections.abc import Callable


def largest(
    fits: Callable[[int], bool],
    start: int,
    closeness: float = 0.03,
    most: int = 1 << 20,
    step: float = 1.0,
) -> int:
    """The largest n from 1 to `most` for which `fits`, within `closeness`; 0: not even 1 does.

    Goes up (or down) from `start` by 1 + `step`, and then by twice that share each time, up to
    doubling and halving; then bisects. Takes it that what fits keeps fitting when it gets smaller.
    No n is tried twice.
    """
    low, high = 0, most + 1  # low fits, high does not
    n = max(1, min(start, most))
    while low == 0 or high > most:
        if fits(n):
            low = n
            if n == most:
                return n
            n = min(max(n + 1, int(n * (1 + step))), most)
        else:
            high = n
            if n == 1:
                return 0
            n = max(1, min(n - 1, int(n / (1 + step))))
        step = min(1.0, 2 * step)
        if low and high <= most:
            break
    while high - low > max(1, closeness * low):
        n = (low + high) // 2
        low, high = (n, high) if fits(n) else (low, n)
    return low
