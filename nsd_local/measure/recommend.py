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


@dataclass(frozen=True, slots=True)
class Machine:
    """What matters of a machine here."""

    memory: int  # bytes that models may take: of the GPUs where there are any
    gpu: bool


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A pair that fits. `gain` is the expected speed relative to plain decoding at draft length `k`."""

    pair: Pair
    gain: float
    k: int

    @property
    def wins(self) -> bool:
        return self.gain >= PAYS


@dataclass(frozen=True, slots=True)
class Checking:
    """What a pass over n tokens costs relative to a pass over one, and how that is known."""

    price: Mapping[int, float]
    source: str


def recommend(catalog: Catalog, machine: Machine, checking: Checking) -> list[Recommendation]:
    """All pairs that fit, the winning ones first, the larger target first (it answers better)."""
    found = []
    for pair in catalog.pairs.values():
        target, draft = catalog.members(pair)
        if pair.memory_gib * 2**30 > SHARE * machine.memory or not target.expected_bytes:
            continue
        step = draft.expected_bytes / target.expected_bytes
        gains = {k: expected_tokens(ACCEPTANCE, k) / (k * step + checking.price[k + 1]) for k in LENGTHS}
        k = max(gains, key=lambda k: gains[k])
        found.append((Recommendation(pair, gains[k], k), target.expected_bytes))
    found.sort(key=lambda row: (not row[0].wins, -row[1], -row[0].gain))
    return [recommendation for recommendation, _ in found]


def checking(machine: Machine, calibrations: Sequence[Costs] = ()) -> Checking:
    """From the calibrations of this machine, their median at each width; assumed where there is none."""
    row = GPU_ROW if machine.gpu else CPU_ROW
    price = {k + 1: 1.0 + row * k for k in LENGTHS}
    if not calibrations:
        kind = "a GPU" if machine.gpu else "a CPU with 4-bit models"
        return Checking(price, f"assumed for {kind}: {row:g} of a pass for each drafted token")
    one = [costs.verify(1, 0) for costs in calibrations]
    for n in price:
        price[n] = statistics.median(costs.verify(n, 0) / t for costs, t in zip(calibrations, one, strict=True))
    pairs = "one pair" if len(calibrations) == 1 else f"{len(calibrations)} pairs"
    return Checking(price, f"measured on this machine with {pairs}: 4 tokens cost {price[4]:.1f} passes")


def rule(checking: Checking, machine: Machine) -> str:
    """How the recommendation was made, in one sentence."""
    where = "GPU memory" if machine.gpu else "memory"
    return (
        f"A pair fits if its recommended memory is within {SHARE:.0%} of {machine.memory / 2**30:.1f} GiB of {where}; "
        f"its gain is the tokens of a round with {ACCEPTANCE:.0%} of the drafts kept, over the cost of drafting "
        f"(size of the draft / size of the target, each) and of checking ({checking.source})."
    )
