"""The homogeneous chain's optimum, without a solver: for `graphs.chain`.

A slot holds one buffer; all are equal, and the input is resident and takes none. What the
simulator counts:
  - f_j holds a_{j-1} and makes a_j: two slots (one for f_1, whose input is resident);
  - b_i holds the gradient g_i and the activation a_{i-1}, and makes g_{i-1}: three slots, or two
    for b_1. Nothing takes over another's storage. g_n is a_n itself.
So besides kept activations ("checkpoints") a backward op takes the gradient that comes in, the
activation, and the gradient that goes out; while the activation is being made again from the
nearest checkpoint, the slot of the gradient that goes out serves for the one that is passed on.

Let t(l, c) be the least number of forward runs that reverse l ops from one checkpoint with c
checkpoints, this one included: t(l, 1) = l (l - 1) / 2 and
    t(l, c) = min over k of k + t(l - k, c - 1) + t(k, c).
Its closed form (Griewank and Walther's revolve) is r l - C(c + r, r - 1), with r the least number
with l <= C(c + r, c). The n - 1 runs of the first sweep are part of the step itself here, and with
s slots two are taken by the gradients, while the resident input is a checkpoint that takes none
and one more slot is that of the activation at hand: c = s - 2. Added runs: t(n, s - 2) - (n - 1).
"""

from __future__ import annotations

import functools
import math

from planner.memgraph import Graph, Plan, Step


def added_runs(n: int, slots: int) -> int | None:
    """Forward ops that the chain of n must run again within that many slots; None: infeasible."""
    if n == 1:
        return 0 if slots >= 2 else None
    checkpoints = min(slots - 2, n - 1)
    if checkpoints < 1:
        return None
    r = 1
    while math.comb(checkpoints + r, checkpoints) < n:
        r += 1
    return r * n - math.comb(checkpoints + r, r - 1) - (n - 1)


@functools.cache
def reversal(length: int, checkpoints: int) -> tuple[int, int]:
    """t(length, checkpoints) by its recursion, and the k that attains it."""
    if length == 1:
        return 0, 0
    if checkpoints == 1:
        return length * (length - 1) // 2, length - 1
    return min(
        (k + reversal(length - k, checkpoints - 1)[0] + reversal(k, checkpoints)[0], k)
        for k in range(1, length)
    )


def plan(graph: Graph, n: int, slots: int) -> Plan:
    """A plan with `added_runs` recomputations, for `plain.chain(n)`."""
    steps: list[Step] = []

    def place(i: int) -> int:
        return 2 * n - i  # of backward op b_i

    def reverse(low: int, high: int, checkpoints: int, computed: bool) -> None:
        """b_high … b_{low+1} from a_low. `computed`: everything on the way is there anyway."""
        length = high - low
        if length <= 1:
            return
        k = length - 1 if checkpoints <= 1 else reversal(length, checkpoints)[1]
        if not computed:
            for op in range(low + 1, low + k + 1):
                steps.append(Step(place(high), op - 1, tuple(graph.ops[op - 1].outputs)))
        reverse(low + k, high, max(1, checkpoints - 1), computed)
        reverse(low, low + k, checkpoints, False)

    reverse(0, n, min(slots - 2, n - 1), True)
    return sorted(steps)
