"""The doctor page: what this machine has, what is loaded, and what to do where something is missing."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import gradio as gr

from nsd_local.doctor import Sections, sections

from .session import Session


class DoctorPage:
    """Filled when it is opened, and again by its button."""

    def __init__(self, session: Session) -> None:
        self.session = session
        with gr.Column(elem_id="doctor-page", elem_classes="n-page"):
            gr.HTML(
                "<h1 class='n-title'>Doctor</h1><p class='n-lead'>What this machine has and what the program "
                "made of it. The command <code>nsd-local doctor</code> says the same.</p>",
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


def render(sections: Sections) -> str:
    """Tables of (name, value) as HTML, everything escaped."""
    out = []
    for title, rows in sections:
        cells = "".join(
            f"<tr><th scope='row'>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows
        )
        out.append(f"<section><h2>{html.escape(title)}</h2><table>{cells}</table></section>")
    return f"<div class='n-doctor'>{''.join(out)}</div>"


def machine() -> Sections:
    """What `nsd-local doctor` finds, what needs attention first."""
    told = [(title, [(name, _short(text)) for name, text in rows]) for title, rows in sections()]
    return sorted(told, key=lambda section: section[0] != "Problems")


def _short(text: str) -> str:
    """With `~` for the user's own folder."""
    return text.replace(str(Path.home()), "~")


def loaded(session: Session) -> Sections:
    """The loaded pair and the choices that were made for it."""
    engine = session.engine
    if engine is None:
        return [("Loaded pair", [("state", session.state.what or "nothing is loaded")])]
    told: Sections = []
    for role, facts in engine.describe().items():
        if facts is None:
            continue
        rows = [(name, _short(str(facts[name]))) for name in ("name", "description", "memory")]
        told.append(
            (f"Loaded {role}", rows + [(name, _short(str(choice))) for name, choice in facts["choices"].items()])
        )
    return told
