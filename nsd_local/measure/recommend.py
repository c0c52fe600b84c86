"""Which pairs of the catalog fit this machine and should be faster with drafting, and by what rule."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nsd_local.catalog.catalog import Catalog
from nsd_local.catalog.entry import Pair
from nsd_local.decoding.breakeven import expected_tokens
from nsd_local.decoding.costs import Costs

ACCEPTANCE = 0.7  # of a small sibling's drafts; between open text (about 0.6) and code (about 0.8)
PAYS = 1.1
SHARE = 0.8  # of the memory that a pair may take
# What a pass over n tokens costs relative to one where nothing was measured: a GPU waits for memory either way, a CPU
# computes each token of a quantized model anew (2.9 passes for n = 4 with Q4_K_M on two cores).
GPU_ROW, CPU_ROW = 0.05, 0.6
LENGTHS = range(1, 9)
SMALLEST = 50_000_000  # bytes of a target whose calibration says something about real ones: smaller ones fit a cache
_SPEEDS = "Its tokens per second follow from its target's size and the measured time per byte; below 3 is too slow."
LEGIBLE = 3.0  # tokens per second; a slower answer is not worth waiting for


@dataclass(frozen=True, slots=True)
class Machine:
    """What matters of a machine here."""

    memory: int  # bytes that models may take: of the GPUs where there are any
    gpu: bool


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What was measured on this machine with a target of `size` bytes."""

    size: int
    costs: Costs


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A pair that fits. `gain` is the expected speed relative to plain decoding at draft length `k`; `plain` is the
    speed of plain decoding in tokens per second, None where this machine has not been measured.
    """

    pair: Pair
    gain: float
    k: int
    plain: float | None = None

    @property
    def rate(self) -> float | None:
        """Expected tokens per second, with drafting where that pays."""
        return None if self.plain is None else self.plain * (self.gain if self.gain >= PAYS else 1.0)

    @property
    def slow(self) -> bool:
        """Too slow to be used, drafting or not."""
        return self.rate is not None and self.rate < LEGIBLE

    @property
    def wins(self) -> bool:
        return self.gain >= PAYS and not self.slow


@dataclass(frozen=True, slots=True)
class Checking:
    """What a pass over n tokens costs relative to a pass over one, and how that is known; what a pass over one token
    takes in seconds per byte of the target, None where that was not measured.
    """

    price: Mapping[int, float]
    source: str
    seconds_per_byte: float | None = None


def recommend(catalog: Catalog, machine: Machine, checking: Checking) -> list[Recommendation]:
    """All pairs that fit: the winning ones, then those not worth drafting, then those too slow here; the larger target
    first (it answers better), but the fastest first among the slow ones.
    """
    found = []
    for pair in catalog.pairs.values():
        target, draft = catalog.members(pair)
        if pair.memory_gib * 2**30 > SHARE * machine.memory or not target.expected_bytes:
            continue
        step = draft.expected_bytes / target.expected_bytes
        gains = {k: expected_tokens(ACCEPTANCE, k) / (k * step + checking.price[k + 1]) for k in LENGTHS}
        k = max(gains, key=lambda k: gains[k])
        plain = 1.0 / (checking.seconds_per_byte * target.expected_bytes) if checking.seconds_per_byte else None
        found.append((Recommendation(pair, gains[k], k, plain), target.expected_bytes))
    found.sort(key=lambda row: _order(*row))
    return [recommendation for recommendation, _ in found]


def _order(one: Recommendation, size: int) -> tuple[bool, bool, float, float]:
    return one.slow, not one.wins, -(one.rate or 0.0) if one.slow else -size, -one.gain


def checking(machine: Machine, calibrations: Sequence[Calibrated] = ()) -> Checking:
    """From the calibrations of this machine with real models, the median at each width; assumed without any."""
    row = GPU_ROW if machine.gpu else CPU_ROW
    price = {k + 1: 1.0 + row * k for k in LENGTHS}
    real = [one for one in calibrations if one.size >= SMALLEST]
    if not real:
        kind = "a GPU" if machine.gpu else "a CPU with 4-bit models"
        return Checking(price, f"assumed for {kind}: {row:g} of a pass for each drafted token")
    for n in price:
        price[n] = statistics.median(one.costs.verify(n, 0) / one.costs.verify(1, 0) for one in real)
    pairs = "one pair" if len(real) == 1 else f"{len(real)} pairs"
    told = f"measured on this machine with {pairs}: checking 4 tokens takes as long as {price[4]:.1f} single passes"
    return Checking(price, told, statistics.median(one.costs.verify(1, 0) / one.size for one in real))


def rule(checking: Checking, machine: Machine) -> str:
    """How the recommendation was made, in one sentence."""
    where = "GPU memory" if machine.gpu else "memory"
    return (
        f"A pair fits if its recommended memory is within {SHARE:.0%} of {machine.memory / 2**30:.1f} GiB of {where}; "
        f"its gain is the tokens of a round with {ACCEPTANCE:.0%} of the drafts kept, over the cost of drafting "
        f"(size of the draft / size of the target, each) and of checking ({checking.source})."
        + (f" {_SPEEDS}" if checking.seconds_per_byte else "")
    )
