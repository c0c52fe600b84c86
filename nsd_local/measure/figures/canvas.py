"""How all figures look, and how they become files."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nsd_local.errors import UsageError
from nsd_local.measure.answers import MISSING
from nsd_local.measure.folder import Folder

# Okabe and Ito's colours, which are told apart with any kind of colour vision; line styles help in print.
COLOURS = ("#000000", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c8c")
DASHES = ("-", "--", "-.")  # dotted lines are bounds
PARTS = {"draft": "#56b4e9", "verify": "#0072b2", "accept": "#e69f00", "rollback": "#d55e00", "other": "#8c8c8c"}
WIDTH, HEIGHT = 6.4, 3.6  # inches


@dataclass(frozen=True, slots=True)
class Drawn:
    """A figure and where its numbers come from."""

    figure: Any  # matplotlib.figure.Figure
    source: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A kind of figure. `draw` gives None where the folder lacks what it needs, which `needs` names."""

    name: str
    title: str
    mirrors: str  # which figure of the NSD paper (arXiv 2610.07822), if any
    how: str  # what is plotted
    needs: str  # the command that records it
    draw: Callable[[Folder], Drawn | None]


def new(columns: int = 1, *, height: float = HEIGHT, width: float = WIDTH) -> tuple[Any, Any]:
    """A figure with so many axes side by side. Raises UsageError where matplotlib is not installed."""
    try:
        from matplotlib import rcParams
        from matplotlib.figure import Figure as Sheet
    except ImportError as error:
        raise UsageError("Figures cannot be drawn", "matplotlib is not installed", MISSING) from error
    rcParams.update({"svg.fonttype": "none", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    sheet = Sheet(figsize=(width, height), layout="constrained")
    axes = sheet.subplots(1, columns)
    return sheet, axes


def colour(i: int) -> str:
    return COLOURS[i % len(COLOURS)]


def style(i: int) -> dict[str, Any]:
    """Colour and dashes of the i-th line."""
    return {"color": colour(i), "linestyle": DASHES[(i // 2) % len(DASHES)], "linewidth": 1.6}


def legend(sheet: Any, columns: int = 4) -> None:
    """Above the axes, where it hides nothing."""
    sheet.legend(loc="outside upper center", ncols=columns, frameon=False, fontsize=8)


def percent(axis: Any) -> None:
    """Ticks of a share in percent."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0))


def bars(axes: Any, labels: Sequence[str], values: Sequence[float], *, horizontal: bool = False, **more: Any) -> None:
    if horizontal:
        axes.barh(labels, values, **more)
        axes.invert_yaxis()
    else:
        axes.bar(labels, values, **more)


def png(sheet: Any) -> bytes:
    out = io.BytesIO()
    sheet.savefig(out, format="png", dpi=160, metadata={"Software": None})
    return out.getvalue()


def svg(sheet: Any, name: str, description: str) -> str:
    """One <svg> element, the same bytes for the same numbers, to stand in a page beside others."""
    from matplotlib import rcParams

    rcParams["svg.hashsalt"] = name  # ids must not repeat within a page
    out = io.StringIO()
    sheet.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'(id="|xlink:href="#|href="#|url\(#)', rf"\g<1>{name}-", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{_escape(description)}" ', 1)


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
