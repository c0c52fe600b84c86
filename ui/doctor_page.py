"""The doctor page: what this machine has, what is loaded, and what to do where something is missing."""

from __future__ import annotations

import html
from typing import Any

import gradio as gr

from .session import Session


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


def render(sections: list[tuple[str, list[tuple[str, str]]]]) -> str:
    """Tables of (name, value) as HTML, everything escaped."""
    out = []
    for title, rows in sections:
        cells = "".join(f"<tr><th scope='row'>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows)
        out.append(f"<section><h2>{html.escape(title)}</h2><table>{cells}</table></section>")
    return f"<div class='n-doctor'>{''.join(out)}</div>"


def machine() -> list[tuple[str, list[tuple[str, str]]]]:
    """What `nsd-local doctor` finds."""
    from nsd_local.cli.facts import sections

    return sections()


def loaded(session: Session) -> list[tuple[str, list[tuple[str, str]]]]:
    """The loaded pair and the choices that were made for it."""
    engine = session.engine
    if engine is None:
        return [("Loaded pair", [("state", session.state.what or "nothing is loaded")])]
    rows = [(f"{role} {key}", str(value)) for role, facts in engine.describe().items() for key, value in _items(facts)]
    return [("Loaded pair", rows)]


def _items(facts: Any) -> list[tuple[str, Any]]:
    return list(facts.items()) if isinstance(facts, dict) else [("", facts)]
