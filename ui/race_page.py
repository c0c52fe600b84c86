"""The race page: a prompt, two or three lanes, and the replay that the page's script draws."""

from __future__ import annotations

from typing import Any

import gradio as gr

from nsd_local.errors import NsdError

from .markup import toast
from .parts import part
from .preferences import Memory
from .race import LANES, NO_LANE, Races

PROMPT = "Write a Python function that merges two sorted lists."


class RacePage:
    """One prompt, decoded in several ways."""

    def __init__(self, races: Races, memory: Memory) -> None:
        self.races, self.memory = races, memory
        with gr.Column(elem_id="race-page", elem_classes="n-page"):
            gr.HTML(
                "<h1 class='n-title'>Race</h1><p class='n-lead'>One prompt, decoded in different ways on the "
                "same seed. The lanes run one after the other, so that none slows another; afterwards they are "
                "replayed side by side at their true speeds.</p>",
                elem_classes="n-bare",
            )
            self.prompt = gr.Textbox(PROMPT, label="Prompt", lines=2, max_lines=8, elem_id="race-prompt")
            with gr.Row(elem_classes="n-fields"):
                self.lanes = [self._lane(i, value) for i, value in enumerate(["Plain", "Exact", "Balanced"])]
                self.longest = gr.Slider(
                    16,
                    1024,
                    value=160,
                    step=16,
                    label="Tokens",
                    info="The longest answer of each lane.",
                    elem_id="race-tokens",
                )
            with gr.Row(elem_classes="n-buttons"):
                self.start = gr.Button("Start the race", variant="primary", elem_id="race-start", size="md")
                self.stop = gr.Button("Stop", elem_id="race-stop", size="md")
            part("race")

    def _lane(self, i: int, value: str) -> gr.Dropdown:
        choices = LANES if i < 2 else [*LANES, NO_LANE]
        return gr.Dropdown(
            choices,
            value=value,
            label=f"Lane {i + 1}",
            info=("First", "Second", "Third")[i] + " to run.",
            elem_id=f"lane-{i + 1}",
        )

    def wire(self) -> None:
        quiet: dict[str, Any] = {"show_progress": "hidden", "queue": False, "api_visibility": "private"}
        self.start.click(self._start, [self.prompt, self.longest, *self.lanes], None, **quiet)
        self.stop.click(self.races.stop, None, None, **quiet)

    def _start(self, prompt: str, longest: float, one: str, two: str, three: str, request: gr.Request) -> None:
        try:
            self.races.start(request.session_hash or "", prompt, [one, two, three], self.memory, int(longest))
        except NsdError as error:
            gr.Warning(toast(error))
