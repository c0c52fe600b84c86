"""Measures what this pair costs on this machine, within a given time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from statistics import median
from time import perf_counter

import numpy as np

from nsd_local.decoding.costs import Costs, Curve
from nsd_local.decoding.decoder import never
from nsd_local.engine.context import Context
from nsd_local.errors import Cancelled
from nsd_local.sampling.law import Law
from nsd_local.sampling.shape import Shape
from nsd_local.verification.rule import Nucleus
from nsd_local.verification.verifier import Verifier

# By importance: where time runs out, the last ones stay unmeasured. The wide ones are widths at which kernels work in
# full tiles, and pay for prompt lookup only.
NARROW, WIDE, LONG = (1, 2, 4, 3, 5, 8, 6, 7), (16, 12, 32, 10, 9, 14, 24, 20), (1, 2, 4, 8, 16)
DRAFT_NARROW, DRAFT_WIDE = (1, 2, 4), (16, 8, 64)
SHORT, LONGEST = 48, 4096  # tokens in memory
REPEATS = 7
UNSTEADY = 1.3  # median over minimum
LAW = Law(temperature=0.7, min_p=0.05)

SAMPLE = """def merge(left, right):
    \"\"\"Merge two sorted lists into one.\"\"\"
    merged, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            merged.append(left[i])
            i += 1
        else:
            merged.append(right[j])
            j += 1
    return merged + left[i:] + right[j:]

The function compares the heads of both lists and always takes the smaller one. When one list is used up, what is
left of the other one is already sorted and can be appended as it is. It takes time in proportion to both lengths.
"""


class Stop(Exception):  # noqa: N818  not an error: the time is used up
    """The time given to a part of the measurement is over."""


@dataclass(slots=True)
class Samples:
    """Seconds per pass, by width."""

    verify: dict[int, list[float]] = field(default_factory=dict)
    draft: dict[int, list[float]] = field(default_factory=dict)

    def curve(self, context: int) -> Curve:
        return Curve(context, _quiet(self.verify), _quiet(self.draft))


def _quiet(samples: dict[int, list[float]]) -> dict[int, float]:
    """The lower quartile of each width, of four samples or fewer the least: what else runs on a machine only adds
    time, so this is nearer to the pair's own cost than the median is."""
    return {n: sorted(times)[(len(times) - 1) // 4] for n, times in sorted(samples.items()) if times}


class Calibration:
    """One measurement of a pair whose contexts are empty, and are so again afterwards."""

    def __init__(
        self,
        target: Context,
        draft: Context | None,
        seconds: float,
        clock: Callable[[], float] = perf_counter,
        cancelled: Callable[[], bool] = never,
    ) -> None:
        self._target, self._draft, self._clock, self._cancelled = target, draft, clock, cancelled
        self._start, self._seconds = clock(), seconds
        self._slowest = 0.0  # seconds per token, to foresee how long a width takes
        self._singles: list[float] = []  # passes over one token at the short context, the yardstick of steadiness
        self._tokens = _sample(target, min(LONGEST, target.n_ctx) + max(WIDE))
        self._q = Shape(draft.n_vocab) if draft is not None else None

    def run(self) -> Costs:
        """Times at a short context and, where there is time, at a long one. Raises Cancelled."""
        try:
            self._fill(min(SHORT, self._target.n_ctx // 2))
            self._warm_up()
            samples = Samples()
            self._interleave(samples, NARROW, DRAFT_NARROW, until=0.4)
            self._interleave(samples, WIDE, DRAFT_WIDE, until=0.65)
            short = samples.curve(len(self._target.tokens))
            self._singles = samples.verify[1]
            overhead = self._overhead(short)
            curves = [short]
            long = self._affordable(short)
            if long > 4 * short.context:
                self._fill(long)
                samples = Samples()
                self._interleave(samples, LONG, DRAFT_NARROW[:1], until=1.0)
                curves.append(samples.curve(long))
            return Costs(tuple(curves), overhead)
        finally:
            self._target.clear()
            if self._draft is not None:
                self._draft.clear()

    @property
    def steady(self) -> bool:
        """Were the times of the same pass about the same? If not, something else was using the machine."""
        return len(self._singles) >= 2 and median(self._singles) <= UNSTEADY * min(self._singles)

    def _interleave(self, samples: Samples, widths: Sequence[int], draft_widths: Sequence[int], until: float) -> None:
        """Rounds over all widths, so that a slow moment does not fall on one of them alone."""
        room = min(memory.n_ctx for memory in self._memories) - len(self._target.tokens)
        for _ in range(REPEATS):
            try:
                for n, m in zip_longest(widths, draft_widths):
                    if n is not None and n <= room:
                        self._sample_target(n, samples.verify, until)
                    if m is not None and m <= room:
                        self._sample_draft(m, samples.draft, until)
            except Stop:
                break

    def _sample_target(self, n: int, times: dict[int, list[float]], until: float) -> None:
        past = times.setdefault(n, [])
        self._check(until, min(past, default=self._slowest * n), needed=n == 1 and not past)
        past.append(self._timed(lambda: self._target.evaluate(self._following(n), rows=n)))
        self._slowest = max(self._slowest, past[0] / n)
        self._target.rewind(len(self._target.tokens) - n)

    def _sample_draft(self, n: int, times: dict[int, list[float]], until: float) -> None:
        """A draft step as the loop runs it: the pass, shaping its logits into q, and drawing."""
        memory, q = self._draft, self._q
        if memory is None or q is None:
            return
        past = times.setdefault(n, [])
        self._check(until, min(past, default=0.0), needed=n == 1 and not past)

        def step() -> None:
            q.take(memory.evaluate(self._following(n), rows=1)[0], LAW, entropy=True)
            q.draw(0.5)

        past.append(self._timed(step))
        memory.rewind(len(memory.tokens) - n)

    def _overhead(self, short: Curve) -> tuple[float, float]:
        """Verifying and rolling back: seconds per round, and per drafted token more."""
        target, verifier = self._target, Verifier(self._target.n_vocab)
        k = min(4, max(short.verify) - 1)
        seconds: dict[int, list[float]] = {0: [], k: []}
        for _ in range(3):
            for drafted, times in seconds.items():
                self._heed()
                tokens = self._following(drafted + 1)
                logits = target.evaluate(tokens, rows=drafted + 1)
                drafts = np.array(tokens[1:], dtype=np.int32)
                before = self._clock()
                verifier.verify(logits, logits[:drafted], drafts, np.full(drafted, 0.999), 0.5, LAW, Nucleus())
                target.rewind(len(target.tokens) - drafted)
                times.append(self._clock() - before)
                target.rewind(len(target.tokens) - 1)
        base = median(seconds[0])
        return base, max(0.0, median(seconds[k]) - base) / max(1, k)

    def _affordable(self, short: Curve) -> int:
        """How long a context can be filled within a third of the remaining time."""
        spare = (self._seconds - (self._clock() - self._start)) / 3
        widest, draft_widest = max(short.verify), max(short.draft, default=1)
        each = short.verify[widest] / widest + short.draft.get(draft_widest, 0.0) / draft_widest
        room = min(memory.n_ctx for memory in self._memories) - max(LONG)
        return max(0, min(LONGEST, room, int(spare / each)))

    def _fill(self, n: int) -> None:
        for memory in self._memories:
            memory.prefill(self._tokens[:n], cancelled=self._cancelled)

    def _warm_up(self) -> None:
        """First passes touch pages and compile kernels: they are not measured."""
        for n in (1, 4):
            if len(self._target.tokens) + n <= min(memory.n_ctx for memory in self._memories):
                self._sample_target(n, {}, until=math.inf)
                self._sample_draft(n, {}, until=math.inf)

    def _check(self, until: float, expected: float, needed: bool) -> None:
        """Raises Stop where the time is up; a sample expected to run over it is not begun either."""
        self._heed()
        if not needed and self._clock() - self._start + expected > until * self._seconds:
            raise Stop

    def _heed(self) -> None:
        if self._cancelled():
            raise Cancelled("Stopped while measuring this pair")

    def _timed(self, work: Callable[[], object]) -> float:
        start = self._clock()
        work()
        return self._clock() - start

    def _following(self, n: int) -> list[int]:
        at = len(self._target.tokens)
        return self._tokens[at : at + n]

    @property
    def _memories(self) -> list[Context]:
        return [self._target] if self._draft is None else [self._target, self._draft]


def _sample(target: Context, n: int) -> list[int]:
    """n tokens of ordinary text: models with experts cost more on random tokens."""
    tokens = target.model.tokenize(SAMPLE, special=False, add_bos=False) or [0]
    return (tokens * (n // len(tokens) + 1))[:n]
