"""What rounds cost right now: the calibration as a prior, corrected by the rounds as they run."""

from __future__ import annotations

import math
from collections import deque
from statistics import median

from nsd_local.decoding.costs import Costs, Curve
from nsd_local.decoding.records import Round

RECENT = 15  # rounds in a running median; long enough to ignore a hiccup, short enough to follow a hot laptop

# Without a calibration: a pass over n tokens is guessed at 1 + 0.25 (n - 1) passes over one, and a draft
# step at a quarter of one, until rounds of that width have been seen.
GUESS_ROW, GUESS_STEP = 0.25, 0.25
GUESS_WIDTHS = range(1, 17)
STEP = 1  # the one width under which draft times are learned


def guess(step: float = GUESS_STEP) -> Costs:
    """Costs in units of one target pass over one token, for a pair of which nothing is known yet.

    `step` is the cost of a draft step in that unit (the ratio of the file sizes is a fair guess).
    """
    verify = {n: 1.0 + GUESS_ROW * (n - 1) for n in GUESS_WIDTHS}
    draft = {n: step * (1.0 + GUESS_ROW * (n - 1)) for n in GUESS_WIDTHS}
    return Costs((Curve(0, verify, draft),), note="guessed")


class Pace:
    """Predicts seconds per round. A factor common to all widths follows the machine (other load, heat), a
    factor per width corrects a point that was measured or guessed wrong.

    `learning` False keeps to the costs as they are, so that choices do not depend on the clock.
    """

    def __init__(self, costs: Costs | None, *, step: float = GUESS_STEP) -> None:
        self.calibrated = costs is not None
        self.costs = costs or guess(step)
        self.learning = True
        self._verify = _Factors(self.calibrated)
        self._draft = _Factors(self.calibrated)
        self._overhead: deque[float] = deque(maxlen=RECENT)

    @property
    def known(self) -> bool:
        """Seconds are seconds: calibrated, or at least one round has been timed."""
        return self.calibrated or self._verify.seen

    def plain(self, context: int) -> float:
        """Seconds of a round without drafting."""
        return self.round(0, context)

    def round(self, k: int, context: int, *, source: str = "", pending: int = 1) -> float:
        """Seconds of a round that drafts k tokens."""
        drafting = self.drafting(k, context, pending) if source == "model" else 0.0
        return drafting + self.verify(k + 1, context) + self.overhead(k)

    def verify(self, n: int, context: int) -> float:
        factor = self._verify.at(n) if self.learning else 1.0
        return self.costs.verify(n, context) * factor

    def drafting(self, k: int, context: int, pending: int = 1) -> float:
        """Seconds to draft k tokens with the draft model."""
        factor = 1.0
        if self.learning:  # what slows the target's pass slows the draft's, until that has been timed itself
            factor = self._draft.at(STEP) if self._draft.seen else self._verify.common
        return self.costs.drafting(k, context, pending) * factor

    def overhead(self, k: int) -> float:
        if self._overhead and self.learning:
            return median(self._overhead)
        return self.costs.overhead[0] + k * self.costs.overhead[1]

    def observe(self, round: Round, pending: int, passes: int | None = None) -> None:
        """Learn from the times of a round.

        `pending` is what the draft model had to read before it, `passes` how often it was run (as a rule once per
        drafted token).
        """
        if not self.learning:
            return
        times, drafted = round.times, len(round.drafted)
        if times.verify > 0.0:
            self._verify.add(drafted + 1, times.verify / self.costs.verify(drafted + 1, round.n_past))
        if round.source == "model" and times.draft > 0.0:
            predicted = self.costs.drafting(drafted if passes is None else passes, round.n_past, pending)
            if predicted > 0.0:
                self._draft.add(STEP, times.draft / predicted)
        self._overhead.append(times.accept + times.rollback + times.other)


class _Factors:
    """Observed / predicted as exp(common + own[n]), both learned from the same errors.

    The error of a width that was never timed says that its point is wrong; the error of one that has been
    timed often says that the machine has changed, which moves all widths. A calibrated point starts
    trusted.
    """

    TRUSTED = 4  # observations that a calibrated point is worth
    COMMON = 0.15  # gain of the common factor
    LEAST = 0.05  # gain of a width that has been timed many times
    LARGEST = math.log(2.0)  # an error beyond this factor is a hiccup and counts as this factor
    FADE = 0.98  # per round: what is not seen again goes back to what was measured, so a bad moment is forgotten

    def __init__(self, calibrated: bool) -> None:
        self._calibrated = calibrated
        self._common = 0.0
        self.seen = False
        self._own: dict[int, float] = {}
        self._count: dict[int, int] = {}

    @property
    def common(self) -> float:
        return math.exp(self._common)

    def at(self, n: int) -> float:
        return math.exp(self._common + self._relative(n))

    def _relative(self, n: int) -> float:
        """What width n adds. An unseen width of a guessed curve follows the seen ones on either side."""
        if n in self._own or self._calibrated or not self._own:
            return self._own.get(n, 0.0)
        below = max((m for m in self._own if m < n), default=None)
        above = min((m for m in self._own if m > n), default=None)
        if below is None or above is None:
            nearest = above if below is None else below
            return self._own[nearest] if nearest is not None else 0.0
        share = (n - below) / (above - below)
        return self._own[below] * (1 - share) + self._own[above] * share

    def add(self, n: int, factor: float) -> None:
        log = math.log(factor)
        if not self.seen and not self._calibrated:  # a guess has no unit: the first time gives it one
            self._common = log
        self.seen = True
        count = self._count.get(n, self.TRUSTED if self._calibrated else 0)
        error = log - self._common - self._relative(n)
        if count:
            error = max(-self.LARGEST, min(self.LARGEST, error))
        gain = max(self.LEAST, 1.0 / (count + 1))
        relative = self._relative(n)
        if self._calibrated:
            self._own = {m: value * self.FADE for m, value in self._own.items()}
        self._own[n] = relative + gain * error
        self._common += self.COMMON * (1.0 - gain) * error
        self._count[n] = count + 1
