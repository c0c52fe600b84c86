"""The doctor page: what this machine has, what is loaded, and what to do where something is missing."""

from __future__ import annotations

import html
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import gradio as gr
import psutil

from .session import Session

Section = tuple[str, list[tuple[str, str]]]  # title, rows of name and value


class DoctorPage:
    """Filled when it is opened, and again by its button."""

    def __init__(self, session: Session) -> None:
        self.session = session
        with gr.Column(elem_id="doctor-page", elem_classes="n-page"):
            gr.HTML(
                "<h1 class='n-title'>Doctor</h1><p class='n-lead'>What this machine has and what the program made of it. The command "
                "<code>nsd-local doctor</code> says the same.</p>",
                elem_classes="n-bare",
            )
            self.again = gr.Button("Look again", elem_id="doctor-again", size="md")
            self.report = gr.HTML("", elem_id="doctor-report", elem_classes="n-bare")

    def wire(self, tab: gr.Tab) -> None:
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
        tab.select(self._look, None, self.report, **quiet)
        self.again.click(self._look, None, self.report, **quiet)

    def _look(self) -> str:
        return render([*machine(), *loaded(self.session)])


def render(sections: list[Section]) -> str:
    """Tables of (name, value) as HTML, everything escaped."""
    out = []
    for title, rows in sections:
        cells = "".join(
            f"<tr><th scope='row'>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows
        )
        out.append(f"<section><h2>{html.escape(title)}</h2><table>{cells}</table></section>")
    return f"<div class='n-doctor'>{''.join(out)}</div>"


def machine() -> list[Section]:
    """What the program runs on."""
    from nsd_local.catalog import home, models_folder
    from nsd_local.chat.store import conversations_folder
    from nsd_local.engine.devices import devices

    memory = psutil.virtual_memory()
    program = [(name, _version(name)) for name in ("nsd-local", "llama-cpp-python", "numba", "numpy", "gradio")]
    hardware = [
        ("system", f"{platform.system()} {platform.release()}, {platform.machine()}"),
        ("processor cores", f"{psutil.cpu_count(logical=False) or '?'} physical, {psutil.cpu_count()} logical"),
        ("memory", f"{memory.available / 1e9:.1f} of {memory.total / 1e9:.1f} GB free"),
    ]
    hardware += [(f"device {one.name}", f"{one.description}, {one.total / 1e9:.1f} GB") for one in devices()]
    folders = [
        ("models", _short(models_folder())),
        ("cache", _short(home())),
        ("conversations", _short(conversations_folder())),
    ]
    return [("Program", [("Python", platform.python_version()), *program]), ("Machine", hardware), ("Folders", folders)]


def _short(path: Path) -> str:
    """With `~` for the user's own folder."""
    own = Path.home()
    return str(Path("~") / path.relative_to(own)) if path.is_relative_to(own) else str(path)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def loaded(session: Session) -> list[Section]:
    """The loaded pair and the choices that were made for it."""
    engine = session.engine
    if engine is None:
        return [("Loaded pair", [("state", session.state.what or "nothing is loaded")])]
    rows = [(f"{role} {key}", str(value)) for role, facts in engine.describe().items() for key, value in _items(facts)]
    return [("Loaded pair", rows)]


def _items(facts: Any) -> list[tuple[str, Any]]:
    return list(facts.items()) if isinstance(facts, dict) else [("", facts)]
