"""The search for the largest size that fits, whatever it is that tries a size."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Mapping

UNPLANNED = ("skipped", "failed")


@dataclasses.dataclass(frozen=True)
class Trial:
    """One size that was planned for: what it takes, and whether that fits.

    peak_bytes: predicted; with lms: of the rewritten step. needed_bytes: the least budget found.
    overhead: the predicted added time, as a share of the step's.
    fixed_bytes: of needed_bytes, what any size takes, such as weights; 0: not known.
    status: as of a report; "skipped" and "failed" are sizes that could not be planned, which count
      as not fitting. reason: then why.
    """

    size: int
    fits: bool
    peak_bytes: int
    needed_bytes: int
    overhead: float = 0.0
    status: str = ""
    reason: str = ""
    fixed_bytes: int = 0

    @property
    def planned(self) -> bool:
        """Whether there is a prediction for this size at all."""
        return self.status not in UNPLANNED


# How much larger the next size is at least, while all that were tried fit. Where there is a line
# it is followed as it is, as often as this says 1.
_GROWTH = (1.0, 1.0, 1.0, 1.5, 2.0, 4.0)
# How much larger it may be, where there is a line to go by.
_STRIDE = 16.0
# By so many guesses that did not halve what is left a line is followed before the middle is tried.
_LINES = 2
# Of the added time that is allowed, the share that is as good as all of it. Near the limit plans
# of neighbouring sizes differ by as much, and no prediction of time is better.
_ENOUGH = 0.98


@dataclasses.dataclass(frozen=True)
class Search:
    """Bisection over sizes, aided by what each size is said to need.

    What is needed is no straight line and has noise in it: upwards sizes grow by _GROWTH at least,
    and _LINES guesses in a row that did not halve what is left are followed by the middle. Sizes
    from 1 to a million are told apart to 2% by 25 trials at most.

    least, most, multiple: the sizes that are tried.
    precision: the share of the answer to which it is to be known; 0: exactly.
    slowdown: the most added time that fits; None: any. Where it decides, guesses go by it, and
      unless the answer is to be exact a size that takes _ENOUGH of it ends the search, where
      that line promises no size that is larger by twice the precision.
    """

    least: int
    most: int
    multiple: int
    precision: float
    slowdown: float | None = None

    def _rounded(self, size: float) -> int:
        steps = int(size) // self.multiple
        first = -(-self.least // self.multiple)
        return self.multiple * max(first, min(steps, self.most // self.multiple))

    def largest(
        self, try_size: Callable[[int], Trial], budget: int, first: int
    ) -> tuple[int, tuple[Trial, ...]]:
        """The largest size that fits (0: none), and all trials by size. `first`: known to fit with
        less means, or 0."""
        trials: dict[int, Trial] = {}
        low: Trial | None = None
        high: Trial | None = None
        size = self._rounded(max(first, self.least, 8))
        ratio = math.inf  # between the ends
        lines = 0  # guesses in a row that did not halve what is left
        while size not in trials:
            trial = trials[size] = try_size(size)
            if trial.fits:
                low = trial
            else:
                high = trial
            if low is not None and self._is_enough(low, high, trials):
                break
            if high is None:
                size = self._above(trial, trials, budget)
                continue
            bottom = low.size if low else self._rounded(self.least) - self.multiple
            if high.size - bottom <= self._close(bottom):
                break
            before, ratio = ratio, high.size / max(bottom, 1)
            lines = 0 if ratio <= math.sqrt(before) or lines == _LINES else lines + 1
            guess = self._line(trials, budget) if lines < _LINES else None
            size = self._between(bottom, high.size, guess)
        return (low.size if low else 0), tuple(trials[size] for size in sorted(trials))

    def _is_enough(self, low: Trial, high: Trial | None, trials: Mapping[int, Trial]) -> bool:
        """Whether what is left of the added time that is allowed buys next to nothing."""
        slowed = sum(trial.status == "rewritten" for trial in trials.values())
        # What one size says of the added time is no line yet.
        if not self.slowdown or not self.precision or (high is None and slowed < 2):
            return False
        reached = self._slowed(trials, self.slowdown)
        close = low.size * (1 + 2 * self.precision)
        used = low.status == "rewritten" and low.overhead >= self.slowdown * _ENOUGH
        return used and reached is not None and reached <= close

    def _close(self, size: int) -> float:
        return max(self.multiple, size * self.precision)

    def _above(self, low: Trial, trials: Mapping[int, Trial], budget: int) -> int:
        """A size above all that were tried: a little above where the line leads, so that the
        answer lies between two of them."""
        line = self._line(trials, budget)
        tried = len(trials) - 1
        if line is None:
            # Of a first size nothing is known; a rewritten step's peak lies below the budget
            # whatever the size: it foretells nothing.
            far = low.status != "rewritten" and tried == 0
            guess = low.size * (4.0 if far else _GROWTH[min(tried + 3, len(_GROWTH) - 1)])
        else:
            beyond = max(line * (1 + self.precision), line + self.multiple)
            least = low.size * _GROWTH[min(tried, len(_GROWTH) - 1)]
            guess = min(max(beyond, least), low.size * _STRIDE)
        return self._rounded(max(guess, low.size + self.multiple))

    def _between(self, low: int, high: int, guess: float | None) -> int:
        """A size between the two: the guess, else the middle, in ratio as sizes are asked for.
        A guess above what is known not to fit knows nothing of what keeps it from fitting."""
        if guess is None or guess >= high:
            guess = math.sqrt(max(low, 1) * high) if low * 2 < high else (low + high) / 2
        close = min(self._close(low), (high - low) / 2)
        inside = self._rounded(min(max(guess, low + close), high - close))
        return min(max(inside, self._rounded(low + self.multiple)), high - self.multiple)

    def _line(self, trials: Mapping[int, Trial], budget: int) -> float | None:
        """Where a line meets a limit: that on the added time where steps are rewritten and one is
        set, else the budget."""
        planned = [trial for trial in trials.values() if trial.planned]
        if any(trial.status == "rewritten" for trial in planned):
            if self.slowdown is None:
                return None
            # Between what is enough and what is too much.
            return self._slowed(trials, self.slowdown * (1 + _ENOUGH) / 2)
        points = [(float(trial.size), float(trial.needed_bytes)) for trial in planned]
        if len(planned) == 1 and planned[0].fixed_bytes:
            points.append((0.0, float(planned[0].fixed_bytes)))
        return _meets(points, budget)

    @staticmethod
    def _slowed(trials: Mapping[int, Trial], slowdown: float) -> float | None:
        """The size at which the added time comes to so much, by a line."""
        kept = [(float(t.size), t.overhead) for t in trials.values() if t.status == "rewritten"]
        # Where steps need no help yet, the added time begins.
        fitting = [trial.size for trial in trials.values() if trial.status == "fits"]
        kept += [(float(size), 0.0) for size in fitting if size == max(fitting)]
        return _meets(kept, slowdown)


def _meets(points: list[tuple[float, float]], limit: float) -> float | None:
    """Where a line meets the limit, above 0: one through the nearest points on both sides of it,
    or, where there are none, through the two nearest to it."""
    under = max(
        (point for point in points if point[1] <= limit), key=operator.itemgetter(1), default=None
    )
    over = min(
        (point for point in points if point[1] > limit), key=operator.itemgetter(1), default=None
    )
    near = sorted(points, key=lambda point: (abs(point[1] - limit), point[0]))[:2]
    if under is not None and over is not None:
        near = [under, over]
    if len(near) < 2 or near[0][1] == near[1][1]:
        return None
    (place, value), (other, other_value) = near
    guess = place + (limit - value) * (other - place) / (other_value - value)
    return guess if guess > 0 else None
