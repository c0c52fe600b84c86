"""What happens along rounds and answers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from nsd_local.decoding.records_io import Recording
from nsd_local.decoding.summary import Summary
from nsd_local.measure.figures import canvas
from nsd_local.measure.figures.canvas import Drawn, Figure
from nsd_local.measure.folder import Folder

SHORTEST = 3  # answers that must still be running for a mean to be drawn


def acceptance_by_position(folder: Folder) -> Drawn | None:
    source, by_arm = folder.rounds
    sheet, axes = canvas.new()
    drawn = 0
    for i, (arm, answers) in enumerate(by_arm.items()):
        shares = Summary([round_ for one in answers for round_ in one.rounds]).acceptance_per_position
        if shares:
            drawn += 1
            axes.plot(range(1, len(shares) + 1), shares, "o", markersize=3.5, label=arm, **canvas.style(i))
    if not drawn:
        return None
    axes.set_xlabel("position in the draft")
    axes.set_ylabel("share of rounds that kept it")
    axes.set_ylim(0, 1.02)
    axes.xaxis.get_major_locator().set_params(integer=True)
    canvas.percent(axes.yaxis)
    canvas.legend(sheet)
    return Drawn(sheet, f"{source}: {sum(map(len, by_arm.values()))} answers")


def k_over_time(folder: Folder) -> Drawn | None:
    source, by_arm = folder.rounds
    sheet, axes = canvas.new()
    drawn = 0
    for i, (arm, answers) in enumerate(by_arm.items()):
        ks = [[float(round_.k) for round_ in one.rounds] for one in answers]
        if not any(k for values in ks for k in values):
            continue
        drawn += 1
        means = _means(ks)
        axes.plot(range(1, len(means) + 1), means, label=arm, **canvas.style(i))
    if not drawn:
        return None
    axes.set_xlabel("round of the answer")
    axes.set_ylabel("drafted tokens k, mean over answers")
    axes.set_ylim(bottom=0)
    canvas.legend(sheet)
    return Drawn(sheet, f"{source}; rounds that fewer than {SHORTEST} answers reached are left out")


def deviation_over_sequence(folder: Folder) -> Drawn | None:
    source, by_arm = folder.rounds
    sheet, axes = canvas.new()
    drawn = 0
    for i, (arm, answers) in enumerate(by_arm.items()):
        spent = _means([running(one, "deviation") for one in answers])
        if not spent or spent[-1] <= 0.0:
            continue
        drawn += 1
        axes.plot(range(1, len(spent) + 1), spent, label=arm, **canvas.style(i))
        bound = _means([running(one, "divergence") for one in answers])
        axes.plot(range(1, len(bound) + 1), bound, color=canvas.colour(i), linestyle=":", linewidth=1.0)
    if not drawn:
        return None
    axes.set_xlabel("emitted tokens")
    axes.set_ylabel("deviation so far, mean over answers")
    axes.set_ylim(bottom=0)
    canvas.legend(sheet)
    return Drawn(sheet, f"{source}; lengths that fewer than {SHORTEST} answers reached are left out")


def running(recording: Recording, name: str) -> list[float]:
    """The sum of a per-position quantity after each emitted token. A position counts with the token it led to."""
    total, sums = 0.0, []
    for round_ in recording.rounds:
        values: Sequence[float] = getattr(round_, name)
        for i in range(len(round_.tokens)):
            if i < len(values) and not math.isnan(values[i]):
                total += values[i]
            sums.append(total)
    return sums


def _means(series: Sequence[Sequence[float]]) -> list[float]:
    """Mean at each index over the series that are that long, as far as enough of them are."""
    enough = min(SHORTEST, len(series))
    lengths = sorted(map(len, series), reverse=True)
    end = lengths[enough - 1] if series else 0
    return [statistics.fmean(values[i] for values in series if len(values) > i) for i in range(end)]


FIGURES = (
    Figure(
        "acceptance_by_position",
        "Acceptance by position in the draft",
        "",
        "Of the rounds that drafted at least so many tokens, the share that kept the one at this position.",
        "bench --out DIR",
        acceptance_by_position,
    ),
    Figure(
        "k_over_time",
        "Draft length over time",
        "",
        "The number of tokens drafted in each round, as chosen by the controller or fixed.",
        "bench --arm nucleus:k=auto --out DIR",
        k_over_time,
    ),
    Figure(
        "deviation_over_sequence",
        "Deviation over the sequence, and its bound",
        "",
        "Solid: the running sum of the exact per-token deviations, which bounds the total variation between the law of "
        "the whole answer and the target's. Dotted: the running sum of TV(p, q), more than which no acceptance of "
        "drafts could spend at these positions.",
        "bench --out DIR",
        deviation_over_sequence,
    ),
)
