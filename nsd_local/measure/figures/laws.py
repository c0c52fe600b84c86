"""How the two laws differ where tokens are kept or rejected."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nsd_local.measure.figures import canvas
from nsd_local.measure.figures.canvas import Drawn, Figure
from nsd_local.measure.folder import Folder
from nsd_local.measure.journal import Record

OUTCOMES = {"ratio": "#009e73", "nucleus": "#e69f00", "rejected": "#d55e00"}
# Classes of the target mass ranked before a token, and their names.
LOCATIONS = ((0.0, 0.5), (0.5, 0.8), (0.8, 0.9), (0.9, 0.95), (0.95, 0.99), (0.99, math.inf))
NAMES = ("<0.5", "0.5–0.8", "0.8–0.9", "0.9–0.95", "0.95–0.99", "≥0.99")


def _positions(folder: Folder) -> Iterator[Record]:
    """Every position of every dissected answer, as one record each."""
    for answers in folder.positions.values():
        for one in answers:
            names = [name for name in one if isinstance(one[name], list)]
            for values in zip(*(one[name] for name in names), strict=True):
                yield dict(zip(names, values, strict=True))


def entropies(folder: Folder) -> Drawn | None:
    positions = list(_positions(folder))
    if not positions:
        return None
    top = max(max(one["entropy_p"], one["entropy_q"]) for one in positions) or 1.0
    edges = [top * i / 30 for i in range(31)]
    sheet, axes = canvas.new(2, width=7.4)
    for panel, law in zip(axes, ("p", "q"), strict=True):
        for outcome, colour in OUTCOMES.items():
            values = [one[f"entropy_{law}"] for one in positions if one["outcome"] == outcome]
            if values:
                weights = [1 / len(values)] * len(values)
                label = f"{outcome} ({len(values)})"
                panel.hist(values, edges, weights=weights, histtype="step", color=colour, linewidth=1.6, label=label)
        panel.set_xlabel(f"entropy of {'the target p' if law == 'p' else 'the draft q'} in nats")
        panel.set_ylabel("share of positions")
        canvas.percent(panel.yaxis)
    axes[1].legend(frameon=False, fontsize=8)
    return Drawn(sheet, f"positions.jsonl: {len(positions)} judged drafts")


def mismatch(folder: Folder) -> Drawn | None:
    groups: list[list[float]] = [[] for _ in LOCATIONS]
    for one in _positions(folder):
        if one["p"] > 0.0 and one["q"] > 0.0:
            place = next(i for i, (low, high) in enumerate(LOCATIONS) if low <= one["ahead"] < high)
            groups[place].append(math.log(one["p"]) - math.log(one["q"]))
    if not any(groups):
        return None
    sheet, axes = canvas.new()
    drawn = [(name, values) for name, values in zip(NAMES, groups, strict=True) if values]
    axes.boxplot([values for _, values in drawn], whis=(5, 95), showfliers=False, medianprops={"color": "#0072b2"})
    axes.set_xticks(range(1, len(drawn) + 1), [f"{name}\n({len(values)})" for name, values in drawn])
    axes.axhline(0.0, color="#8c8c8c", linewidth=0.8)
    axes.set_xlabel("target mass ranked before the drafted token (number of tokens)")
    axes.set_ylabel("log p − log q")
    return Drawn(sheet, f"positions.jsonl: {sum(map(len, groups))} judged drafts with p > 0")


FIGURES = (
    Figure(
        "entropies",
        "Entropies of target and draft",
        "Fig. 3a",
        "Both models were evaluated again on the recorded answers; entropies of the laws as shaped by the settings, at "
        "every judged draft, by what became of it.",
        "bench --positions --out DIR",
        entropies,
    ),
    Figure(
        "mismatch",
        "Log-probability mismatch by place in the target's law",
        "Fig. 3b",
        "log p(x) − log q(x) of every judged draft x, by the target mass ranked before it: x lies in the nucleus of "
        "theta where that is below theta. Boxes: quartiles; whiskers: 5 % and 95 %. Tokens with p = 0 cannot be shown.",
        "bench --positions --out DIR",
        mismatch,
    ),
)
