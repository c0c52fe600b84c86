"""Speed, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence

from nsd_local.measure.bench import overall, summarise
from nsd_local.measure.evaluate import summarise as scores
from nsd_local.measure.figures import canvas
from nsd_local.measure.figures.canvas import Drawn, Figure
from nsd_local.measure.folder import PREFERENCE, Folder
from nsd_local.measure.runner import Row
from nsd_local.verification.block import NucleusBlock
from nsd_local.verification.rule import Nucleus

MARKERS = "osD^vP*Xh<>p8d1234"


def speed_by_kind(folder: Folder) -> Drawn | None:
    summaries = [one for one in summarise(folder.rows("bench")) if one["speedup"] is not None]
    arms = [arm for arm in dict.fromkeys(one["arm"] for one in summaries) if arm not in ("plain", "bare")]
    kinds = list(dict.fromkeys(one["prompt_kind"] for one in summaries))
    if not arms:
        return None
    sheet, axes = canvas.new(width=7.4)
    width = 0.8 / len(arms)
    for i, arm in enumerate(arms):
        mine = {one["prompt_kind"]: one for one in summaries if one["arm"] == arm}
        places = [x + (i - (len(arms) - 1) / 2) * width for x, kind in enumerate(kinds) if kind in mine]
        values = [mine[kind]["speedup"] for kind in kinds if kind in mine]
        low = [mine[kind]["speedup"] - mine[kind]["speedup_q1"] for kind in kinds if kind in mine]
        high = [mine[kind]["speedup_q3"] - mine[kind]["speedup"] for kind in kinds if kind in mine]
        axes.bar(
            places, values, width, yerr=(low, high), color=canvas.colour(i + 1), label=arm, error_kw={"linewidth": 0.8}
        )
    axes.axhline(1.0, color="#000000", linewidth=0.8)
    axes.set_xticks(range(len(kinds)), kinds)
    axes.set_ylabel("speed, times plain decoding")
    canvas.legend(sheet)
    return Drawn(
        sheet, f"bench.jsonl: {len(folder.rows('bench'))} runs; bars: medians of paired runs, lines: quartiles"
    )


def speed_against_deviation(folder: Folder) -> Drawn | None:
    points: dict[str, dict[str, list[tuple[float, float]]]] = {}  # rule -> journal -> (deviation, speed-up)
    for name in PREFERENCE:
        rows = folder.rows(name)
        rules = {row["arm"]: _form(row) for row in rows}
        for one in overall(rows):
            rule = rules[one["arm"]]
            if rule and one["speedup"] and one["deviation_per_token"] is not None:
                where = points.setdefault(rule, {}).setdefault(name, [])
                where.append((one["deviation_per_token"], one["speedup"]))
    if not points:
        return None
    sheet, axes = canvas.new(width=7.4, height=4.2)
    for i, (rule, by_journal) in enumerate(points.items()):
        look = {"marker": MARKERS[i % len(MARKERS)], "markersize": 5, "color": canvas.colour(i + 1)}
        for name, mine in by_journal.items():
            x, y = zip(*sorted(mine), strict=True)
            width = 0.8 if name == "sweep-rules" else 0.0  # there all have the same k, and a line means something
            axes.plot(
                x, y, linewidth=width, linestyle="-", label=rule if name == next(iter(by_journal)) else None, **look
            )
    axes.axhline(1.0, color="#000000", linewidth=0.8)
    axes.set_xlabel("deviation per token (total variation)")
    axes.set_ylabel("speed, times plain decoding")
    sheet.legend(loc="outside right upper", frameon=False, fontsize=8)
    count = sum(len(mine) for by_journal in points.values() for mine in by_journal.values())
    sources = [f"{name}.jsonl" for name in PREFERENCE if any(name in by_journal for by_journal in points.values())]
    return Drawn(sheet, f"{', '.join(sources)}: {count} settings; medians of paired runs; lines join settings of one k")


def _form(row: Row) -> str | None:
    """The rule that verified: nucleus, unless it says otherwise, as nucleus-block."""
    rule = row.get("rule")
    return NucleusBlock.name if rule == Nucleus.name and row.get("block") else rule


def grid(folder: Folder) -> Drawn | None:
    rows = folder.rows("sweep")
    theta = {row["arm"]: (row["rule_parameters"].get("theta"), row["draft_tokens"]) for row in rows if row.get("rule")}
    summaries = [one for one in overall(rows) if one["arm"] in theta and one["speedup"]]
    if not summaries:
        return None
    sheet, (left, right) = canvas.new(2, width=7.4)
    lines = list(dict.fromkeys(theta[one["arm"]][0] for one in summaries))
    for i, value in enumerate(lines):
        mine = sorted((theta[one["arm"]][1], one) for one in _with(summaries, theta, value))
        label = "exact" if value is None else f"nucleus, theta {value:g}"
        ks = [k for k, _ in mine]
        left.plot(ks, [one["speedup"] for _, one in mine], "o", markersize=4, label=label, **canvas.style(i))
        right.plot(ks, [one["mean_accepted_length"] for _, one in mine], "o", markersize=4, **canvas.style(i))
    left.set_ylabel("speed, times plain decoding")
    right.set_ylabel("tokens per pass")
    left.axhline(1.0, color="#000000", linewidth=0.8)
    for axes in (left, right):
        axes.set_xlabel("drafted tokens k")
    canvas.legend(sheet)
    return Drawn(sheet, f"sweep.jsonl: {len(rows)} runs; medians of paired runs")


def _with(summaries: Sequence[Row], theta: dict[str, tuple[float | None, int]], value: float | None) -> list[Row]:
    return [one for one in summaries if theta[one["arm"]][0] == value]


def accuracy(folder: Folder) -> Drawn | None:
    names = [name for name in folder.evaluations if folder.rows(name)]
    if not names:
        return None
    sheet, axes = canvas.new()
    arms: list[str] = []
    for x, name in enumerate(names):
        rows = folder.rows(name)
        mine = list(dict.fromkeys(row["arm"] for row in rows))
        arms += [arm for arm in mine if arm not in arms]
        for one in scores(rows, mine):
            i = arms.index(one["arm"])
            place = x + 0.15 * (mine.index(one["arm"]) - (len(mine) - 1) / 2)
            error = [[one["accuracy"] - one["accuracy_low"]], [one["accuracy_high"] - one["accuracy"]]]
            label = one["arm"] if x == next(j for j, n in enumerate(names) if _has(folder, n, one["arm"])) else None
            axes.errorbar([place], [one["accuracy"]], yerr=error, fmt=MARKERS[i], color=canvas.colour(i), label=label)
    axes.set_xticks(range(len(names)), [name.removeprefix("eval-") for name in names])
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_ylabel("accuracy (pass@1)")
    axes.set_ylim(0, 1)
    canvas.percent(axes.yaxis)
    canvas.legend(sheet)
    return Drawn(sheet, f"{', '.join(names)}: {sum(len(folder.rows(name)) for name in names)} answers; 95 % by Wilson")


def _has(folder: Folder, name: str, arm: str) -> bool:
    return any(row["arm"] == arm for row in folder.rows(name))


FIGURES = (
    Figure(
        "speed_by_kind",
        "Speed by kind of prompt",
        "",
        "Tokens per second divided by those of plain decoding on the same prompt and seed.",
        "bench --out DIR",
        speed_by_kind,
    ),
    Figure(
        "grid",
        "Draft length and theta",
        "Table 2",
        "The grid of k and theta: speed over plain decoding, and tokens emitted per target pass.",
        "sweep --out DIR",
        grid,
    ),
    Figure(
        "speed_against_deviation",
        "Speed against deviation, all rules",
        "",
        "Each point is one setting of a rule: how far the law of a token is from the target's (exact, by the same "
        "formula for every rule), and how fast it is. Lossless rules stand at 0.",
        "sweep --rules --out DIR",
        speed_against_deviation,
    ),
    Figure(
        "accuracy",
        "Task accuracy",
        "",
        "Share of problems solved, with its interval.",
        "eval TASK --out DIR",
        accuracy,
    ),
)
