"""Where the time goes."""

from __future__ import annotations

from dataclasses import asdict

from nsd_local.decoding.records_io import Recording
from nsd_local.decoding.summary import Summary
from nsd_local.measure.figures import canvas
from nsd_local.measure.figures.canvas import Drawn, Figure
from nsd_local.measure.folder import Folder


def _summary(recordings: list[Recording]) -> Summary:
    return Summary([round_ for one in recordings for round_ in one.rounds])


def time_split(folder: Folder) -> Drawn | None:
    source, by_arm = folder.rounds
    summaries = {arm: _summary(answers) for arm, answers in by_arm.items()}
    summaries = {arm: summary for arm, summary in summaries.items() if summary.tokens}
    if not summaries:
        return None
    sheet, axes = canvas.new(height=1.1 + 0.32 * len(summaries))
    left = [0.0] * len(summaries)
    for part, colour in canvas.PARTS.items():
        values = [1e3 * asdict(one.times)[part] / len(one.tokens) for one in summaries.values()]
        axes.barh(list(summaries), values, left=left, color=colour, label=part)
        left = [a + b for a, b in zip(left, values, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("ms per output token")
    canvas.legend(sheet, len(canvas.PARTS))
    return Drawn(sheet, f"{source}: {_count(by_arm)} answers")


def verify_time(folder: Folder) -> Drawn | None:
    source, by_arm = folder.rounds
    values = {}
    for arm, answers in by_arm.items():
        summary = _summary(answers)
        if summary.tokens:
            values[arm] = 1e3 * summary.times.verify / len(summary.tokens)
    if not values:
        return None
    sheet, axes = canvas.new(height=1.0 + 0.32 * len(values))
    canvas.bars(axes, list(values), list(values.values()), horizontal=True, color=canvas.PARTS["verify"])
    axes.bar_label(axes.containers[0], fmt="%.3g", padding=3)
    axes.set_xlabel("ms of target verification per output token")
    return Drawn(sheet, f"{source}: {_count(by_arm)} answers")


def _count(by_arm: dict[str, list[Recording]]) -> int:
    return sum(map(len, by_arm.values()))


FIGURES = (
    Figure(
        "time_split",
        "Where a token's time goes",
        "Fig. 1a",
        "Wall time of all rounds divided by the tokens they emitted, by part: drafting, the target's pass, the "
        "decision, taking back what was rejected, everything else. Reading the prompt is not counted.",
        "bench --out DIR",
        time_split,
    ),
    Figure(
        "verify_time",
        "Verification time per output token",
        "Fig. 3d",
        "Time of the target's passes divided by the tokens emitted: a rule that keeps more drafts needs fewer passes.",
        "bench --out DIR",
        verify_time,
    ),
)
