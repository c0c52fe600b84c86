"""One self-contained HTML page, and the figures as files, from a folder of records. Needs no model and no network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from nsd_local.measure import columns
from nsd_local.measure.bench import overall, summarise
from nsd_local.measure.evaluate import summarise as scores
from nsd_local.measure.figures import FIGURES, Figure
from nsd_local.measure.figures.canvas import png, svg
from nsd_local.measure.folder import Folder
from nsd_local.measure.sweep import theta_table
from nsd_local.measure.table import Cell

PAPER = "arXiv 2610.07822"
SETUP = {
    "cpu_info": "processor",
    "cores": "cores",
    "n_threads": "threads",
    "memory_gb": "memory (GiB)",
    "gpu_info": "GPU",
    "system": "system",
    "build": "llama.cpp",
    "nsd_local": "nsd-local",
    "model_filename": "target",
    "model_type": "target type",
    "model_sha256": "target SHA-256",
    "draft_filename": "draft",
    "draft_type": "draft type",
    "draft_sha256": "draft SHA-256",
    "n_ctx": "context",
    "n_gpu_layers": "layers on the GPU",
}


@dataclass(frozen=True, slots=True)
class Made:
    """What a report consists of."""

    page: Path
    figures: tuple[Path, ...]
    missing: tuple[str, ...]  # titles of figures whose data are not there


def report(path: Path, out: Path | None = None, *, say: Callable[[str], None] = lambda text: None) -> Made:
    """Writes `report.html` and `figures/*.svg, *.png` into `out` (the folder itself if None).

    Raises UsageError where the folder holds no records or matplotlib is missing.
    """
    folder, target = Folder(path), out or path
    files: dict[Path, bytes] = {}
    sections, missing = [], []
    for figure in FIGURES:
        drawn = figure.draw(folder)
        if drawn is None:
            missing.append(figure)
            continue
        image = svg(drawn.figure, figure.name, figure.title)
        sections.append(_section(figure, image, drawn.source))
        files[target / "figures" / f"{figure.name}.svg"] = _standalone(image)
        files[target / "figures" / f"{figure.name}.png"] = png(drawn.figure)
        say(f"drew {figure.name}")
    (target / "figures").mkdir(parents=True, exist_ok=True)
    for file, data in files.items():
        file.write_bytes(data)
    page = target / "report.html"
    page.write_text(_page(folder, tables(folder), sections, missing), encoding="utf-8")
    return Made(page, tuple(files), tuple(figure.title for figure in missing))


def tables(folder: Folder) -> dict[str, tuple[Mapping[str, Cell], Sequence[Any]]]:
    """Every table that the folder has rows for, by title: columns and rows."""
    found: dict[str, tuple[Mapping[str, Cell], Sequence[Any]]] = {}
    if rows := folder.rows("bench"):
        found["Throughput"] = (columns.BENCH, summarise(rows))
    if rows := folder.rows("compare"):
        ks = {row["arm"]: row["draft_tokens"] for row in rows}
        found["Rules side by side"] = (
            columns.COMPARE,
            [{**one, "draft_tokens": ks[one["arm"]]} for one in overall(rows)],
        )
    if rows := folder.rows("sweep"):
        drafting = [row for row in rows if row["rule"]]
        lengths = sorted({row["draft_tokens"] for row in drafting})
        thetas = sorted({row["rule_parameters"]["theta"] for row in drafting if "theta" in row["rule_parameters"]})
        found["k × theta"] = (columns.grid(lengths), theta_table(overall(rows), lengths, thetas))
    if rows := folder.rows("sweep-rules"):
        found["Rules from strict to loose"] = (columns.SWEEP, overall(rows))
    for name in folder.evaluations:
        if rows := folder.rows(name):
            arms = list(dict.fromkeys(row["arm"] for row in rows))
            arms.sort(key=lambda arm: arm != "plain")
            found[f"Task {name.removeprefix('eval-')}"] = (columns.EVAL, scores(rows, arms))
    return found


def _standalone(image: str) -> bytes:
    return ('<?xml version="1.0" encoding="utf-8"?>\n' + image).encode()


def _section(figure: Figure, image: str, source: str) -> str:
    mirrors = f"Mirrors {figure.mirrors} of the NSD paper ({PAPER})." if figure.mirrors else "Not in the NSD paper."
    return (
        f'<section id="{figure.name}"><h3>{escape(figure.title)}</h3>\n<figure>{image}\n<figcaption>'
        f"<b>{escape(mirrors)}</b> {escape(figure.how)} <i>{escape(source)}.</i></figcaption></figure></section>"
    )


def _table(title: str, cells: Mapping[str, Cell], rows: Sequence[Any]) -> str:
    texts = [[cell(row) for cell in cells.values()] for row in rows]
    words = [any(line[i][:1].isalpha() for line in texts) for i in range(len(cells))]  # left-aligned
    lines = [_line("th", list(cells), words), *(_line("td", line, words) for line in texts)]
    return f'<h3>{escape(title)}</h3>\n<div class="wide"><table>{"".join(lines)}</table></div>'


def _line(tag: str, texts: Sequence[str], words: Sequence[bool]) -> str:
    marks = (' class="word"' if word else "" for word in words)
    return f"<tr>{''.join(f'<{tag}{m}>{escape(text)}</{tag}>' for m, text in zip(marks, texts, strict=True))}</tr>\n"


def _page(folder: Folder, found: Mapping[str, Any], sections: Sequence[str], missing: Sequence[Figure]) -> str:
    template = resources.files("nsd_local.measure").joinpath("report.html").read_text(encoding="utf-8")
    setup = [(label, folder.setup[key]) for key, label in SETUP.items() if folder.setup.get(key) is not None]
    values = {
        "setup": "".join(f"<dt>{escape(label)}</dt><dd>{escape(str(value))}</dd>" for label, value in setup),
        "commands": "\n".join(map(escape, folder.commands)) or "not recorded",
        "drift": _drift(folder),
        "tables": "\n".join(_table(title, *content) for title, content in found.items()),
        "figures": "\n".join(sections),
        "missing": "".join(
            f"<li>{escape(one.title)}: <code>nsd-local {escape(one.needs)}</code></li>" for one in missing
        ),
        "missing_shown": "" if missing else "hidden",
    }
    for name, value in values.items():
        template = template.replace(f"<!-- {name} -->", value)
    return template


def _drift(folder: Folder) -> str:
    """What plain decoding did between the beginning and the end of each session."""
    lines = []
    for name in folder.journals:
        for one in folder.drift(name):
            verdict = "drifted: do not trust small differences" if one["drifted"] else "steady"
            lines.append(
                f"<li>{escape(name)}: plain decoding {one['before_ts']:.1f} tok/s before, {one['after_ts']:.1f} after "
                f"({100 * one['change']:+.1f} %, {verdict})</li>"
            )
    return "".join(lines) or "<li>not checked: no measurement of speed was finished</li>"
