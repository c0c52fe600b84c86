"""Which drafted tokens are rejected, and which the nucleus saves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

from nsd_local.decoding.records import Round
from nsd_local.measure.figures import canvas
from nsd_local.measure.figures.canvas import Drawn, Figure
from nsd_local.measure.folder import Folder

EDGES = (1, 2, 3, 4, 5, 6, 11, 21, 51, 101)  # lower edges of rank classes
LABELS = [str(a) if b - a == 1 else f"{a}–{b - 1}" for a, b in pairwise(EDGES)] + [f">{EDGES[-1] - 1}"]
THETAS = (0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99)


def shares_by_rank(ranks: Sequence[int]) -> list[float]:
    """The share of ranks in each class of LABELS; they sum to 1."""
    counts = [0] * len(EDGES)
    for rank in ranks:
        counts[max(i for i, edge in enumerate(EDGES) if edge <= rank)] += 1
    return [count / len(ranks) for count in counts]


def _by_rank(
    folder: Folder, ranks_of: Callable[[Round], list[int]], across: str, up: str, counted: str, *, sums: bool = False
) -> Drawn | None:
    """Bars of the share of each rank, arm by arm; `sums` adds the shares up to each rank as lines."""
    source, by_arm = folder.rounds
    ranks = {
        arm: [rank for one in answers for round_ in one.rounds for rank in ranks_of(round_)]
        for arm, answers in by_arm.items()
    }
    ranks = {arm: values for arm, values in ranks.items() if values}
    if not ranks:
        return None
    sheet, axes = canvas.new()
    width, alpha = 0.8 / len(ranks), 0.55 if sums else 1.0
    for i, (arm, values) in enumerate(ranks.items()):
        shares, label = shares_by_rank(values), f"{arm} ({len(values)})"
        places = [x + (i - (len(ranks) - 1) / 2) * width for x in range(len(LABELS))]
        axes.bar(places, shares, width, color=canvas.colour(i + 1), alpha=alpha, label=label)
        if sums:
            axes.plot(range(len(LABELS)), list(accumulate(shares)), "o", markersize=3, **canvas.style(i + 1))
    axes.set_xticks(range(len(LABELS)), LABELS)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    canvas.percent(axes.yaxis)
    canvas.legend(sheet)
    return Drawn(sheet, f"{source}: {sum(map(len, ranks.values()))} {counted}")


def rejected_rank(folder: Folder) -> Drawn | None:
    def ranks(round_: Round) -> list[int]:
        return [] if round_.rejected_rank is None else [round_.rejected_rank]

    across, up = "rank of the rejected token in the target", "share of rejections"
    return _by_rank(folder, ranks, across, up, "first rejections of their rounds")


def rejected_location(folder: Folder) -> Drawn | None:
    ahead = {
        arm: [
            a
            for one in answers
            for a, outcome in zip(one["ahead"], one["outcome"], strict=True)
            if outcome == "rejected"
        ]
        for arm, answers in folder.positions.items()
    }
    ahead = {arm: values for arm, values in ahead.items() if values}
    if not ahead:
        return None
    sheet, (left, right) = canvas.new(2)
    for i, (arm, values) in enumerate(ahead.items()):
        ordered = sorted(values)
        heights = [(j + 1) / len(ordered) for j in range(len(ordered))]
        left.step([0.0, *ordered, 1.0], [0.0, *heights, 1.0], where="post", label=arm, **canvas.style(i + 1))
        right.plot(
            THETAS, [sum(a < theta for a in values) / len(values) for theta in THETAS], "o-", color=canvas.colour(i + 1)
        )
    left.axvline(0.9, color="#8c8c8c", linewidth=0.8)
    left.set_xlabel("target mass ranked before the token")
    left.set_ylabel("share of rejected tokens up to there")
    right.set_xlabel("theta")
    right.set_ylabel("share of rejected tokens in the nucleus")
    for axes in (left, right):
        canvas.percent(axes.yaxis)
        axes.set_ylim(0, 1.02)
    canvas.legend(sheet)
    return Drawn(sheet, f"positions.jsonl: {sum(map(len, ahead.values()))} rejected tokens")


def kept_by_nucleus(folder: Folder) -> Drawn | None:
    def ranks(round_: Round) -> list[int]:
        return [token.target_rank for token in round_.tokens if token.kind == "nucleus"]

    across, up = "rank in the target of the token that the nucleus kept", "share (bars), cumulative (lines)"
    return _by_rank(folder, ranks, across, up, "tokens of the kind nucleus", sums=True)


FIGURES = (
    Figure(
        "rejected_rank",
        "Target rank of rejected tokens",
        "Fig. 1b",
        "The rank, in the target's law, of the first rejected draft of each round; the number of them in brackets.",
        "bench --out DIR",
        rejected_rank,
    ),
    Figure(
        "rejected_location",
        "Where in the target's law rejected tokens lie",
        "Fig. 1c",
        "Both models were evaluated again on the recorded answers. Left: distribution of the target mass ranked before "
        "a rejected token (grey: theta 0.9). Right: the share of them that a nucleus of each theta contains.",
        "bench --positions --out DIR",
        rejected_location,
    ),
    Figure(
        "kept_by_nucleus",
        "Tokens kept by the nucleus, by target rank",
        "Fig. 3c",
        "The rank in the target's law of every token that only the nucleus rule kept, not exact verification.",
        "bench --out DIR",
        kept_by_nucleus,
    ),
)
