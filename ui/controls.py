"""The dials of the next answer: each with one line of help, all remembered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr

from nsd_local.errors import UsageError
from nsd_local.verification.rules import RULES

from .markup import markdown
from .preferences import CUSTOM, PRESETS, Memory

K_CHOICES = ["auto", *(str(k) for k in (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16))]
WHOLE = ("exact_first", "top_k", "seed", "max_tokens")


class Controls:
    """The column of controls. `fields` maps each preference to its widget."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.fields: dict[str, Any] = {}
        now = memory.now
        gr.HTML("<h2 class='n-heading'>Next answer</h2>", elem_classes="n-bare")
        self.preset = gr.Dropdown(
            [*PRESETS, CUSTOM],
            value=now.preset,
            label="Preset",
            info=_about(now.preset),
            interactive=True,
            elem_id="c-preset",
        )
        with gr.Accordion("Verification", open=False):
            self._verification()
        with gr.Accordion("Drafting", open=False):
            self._add(
                "k",
                gr.Dropdown,
                K_CHOICES,
                label="Draft tokens k",
                info="How far to guess ahead; auto chooses each round, 0 is plain decoding.",
            )
        with gr.Accordion("Sampling", open=False):
            self._sampling()
        self.problem = gr.Markdown(visible=False, elem_id="c-problem")

    def _add(self, name: str, widget: Any, *args: Any, **more: Any) -> None:
        value, elem_id = getattr(self.memory.now, name), f"c-{name.replace('_', '-')}"
        self.fields[name] = widget(*args, value=value, interactive=True, elem_id=elem_id, **more)

    def _verification(self) -> None:
        add = self._add
        add(
            "rule",
            gr.Dropdown,
            sorted(RULES, key=("nucleus", "exact").__contains__, reverse=True),
            allow_custom_value=True,
            label="Rule",
            info="nucleus keeps more drafts and tells the cost, exact keeps the target's law; the others are rivals. "
            "Parameters may follow: topk:n=2.",
        )
        add(
            "theta",
            gr.Slider,
            0,
            1,
            step=0.01,
            label="Theta",
            info="Mass of the target's nucleus; larger keeps more drafts.",
        )
        add(
            "strength",
            gr.Slider,
            0,
            1,
            step=0.05,
            label="Strength",
            info="Share of nucleus tokens kept after a failed ratio test; 0 is exact.",
        )
        add(
            "cap",
            gr.Number,
            minimum=0,
            step=0.01,
            label="Cap",
            info="Largest deviation of a single token; empty for none.",
        )
        add(
            "block",
            gr.Checkbox,
            label="Judge rounds as a whole",
            info="nucleus judges a round's drafts together and keeps more of them; off: one by one, as in the paper.",
        )
        add(
            "budget",
            gr.Number,
            minimum=0,
            step=0.1,
            label="Budget",
            info="Deviation of the whole answer; when it is spent, the rest is exact.",
        )
        add(
            "exact_first",
            gr.Slider,
            0,
            32,
            step=1,
            label="Exact first",
            info="So many first tokens are verified exactly.",
        )

    def _sampling(self) -> None:
        add = self._add
        add("temperature", gr.Slider, 0, 2, step=0.05, label="Temperature", info="0 always takes the likeliest token.")
        add("top_k", gr.Slider, 0, 200, step=1, label="Top-k", info="Keep this many likeliest tokens; 0 keeps all.")
        add("top_p", gr.Slider, 0.01, 1, step=0.01, label="Top-p", info="Keep the likeliest tokens up to this mass.")
        add(
            "min_p",
            gr.Slider,
            0,
            1,
            step=0.01,
            label="Min-p",
            info="Drop tokens less likely than this times the likeliest.",
        )
        add(
            "seed",
            gr.Number,
            minimum=0,
            precision=0,
            label="Seed",
            info="Same seed, same answer; empty draws a fresh one.",
        )
        add(
            "max_tokens",
            gr.Number,
            minimum=1,
            precision=0,
            label="Longest answer",
            info="Stop after this many tokens; empty for no limit.",
        )

    def wire(self) -> None:
        """Every change is checked and remembered at once; a preset moves the dials."""
        quiet: dict[str, Any] = {"show_progress": "hidden", "queue": False, "api_visibility": "private"}
        outputs = [self.preset, self.problem]
        for name, widget in self.fields.items():
            changed = self._changed(name)
            if isinstance(widget, gr.Slider):
                widget.release(changed, widget, outputs, **quiet)
            else:
                widget.input(changed, widget, outputs, **quiet)
        self.preset.input(self._choose, self.preset, [*self.fields.values(), self.preset], **quiet)

    def _changed(self, name: str) -> Callable[[Any], tuple[Any, Any]]:
        def remember(value: Any) -> tuple[Any, Any]:
            try:
                now = self.memory.change(**{name: read(name, value)})
            except UsageError as error:
                return gr.skip(), gr.update(value=f"**Not used:** {markdown(str(error))}", visible=True)
            return gr.update(value=now.preset, info=_about(now.preset)), gr.update(visible=False)

        return remember

    def _choose(self, preset: str) -> list[Any]:
        if preset in PRESETS:
            self.memory.change(**PRESETS[preset][1])
        now = self.memory.now.preset
        return [*self.values(), gr.update(value=now, info=_about(now))]

    def values(self) -> list[Any]:
        """The remembered values in the order of `fields`, as their widgets take them."""
        return [getattr(self.memory.now, name) for name in self.fields]


def read(name: str, value: Any) -> Any:
    """The value of a widget as a preference: an empty number is none, a slider's whole number may be a float."""
    return int(value) if name in WHOLE and value is not None else value


def _about(preset: str) -> str:
    return PRESETS[preset][0] if preset in PRESETS else "Your own mix of the dials below."
