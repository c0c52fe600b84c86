"""Model and draft pickers: only pairs that fit, and why the others do not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gradio as gr

from .choice import Choice
from .markup import markdown, toast
from .pairs import Offer, drafts_for, targets
from .preferences import Memory

AUTOMATIC = "automatic"
FIXED = [
    ("automatic: the pair's own", AUTOMATIC),
    ("none: plain decoding", "none"),
    ("ngram: prompt lookup", "ngram"),
    ("auto: prompt lookup and the pair's own", "auto"),
]


class Picker:
    """Chooses the pair. Loading starts with the button, after the running answer.

    It shows the pair that was loaded last; from its first use on, what it says counts and not the command line.
    """

    def __init__(self, memory: Memory, start: Choice, load: Callable[[Choice], None]) -> None:
        self.memory, self.last, self.load = memory, start, load
        model, draft, ctx = self.values()
        with gr.Accordion("Models", open=False) as self.fold:
            self.model = gr.Dropdown(
                [(offer.label, offer.spec) for offer in targets()],
                value=model,
                label="Model",
                info="The target: it decides what is said. A catalog name, a GGUF path, or hf-repo:quant.",
                allow_custom_value=True,
                interactive=True,
                elem_id="c-model",
            )
            self.draft = gr.Dropdown(
                FIXED,
                value=draft,
                label="Draft",
                info="It guesses ahead. Only drafts with the same vocabulary are offered.",
                allow_custom_value=True,
                interactive=True,
                elem_id="c-draft",
            )
            self.others = gr.Markdown(elem_id="c-others")
            self.ctx = gr.Textbox(
                ctx,
                label="Context",
                info="Tokens of prompt and answers; empty chooses what fits.",
                max_lines=1,
                elem_id="c-ctx",
            )
            self.button = gr.Button("Load this pair", elem_id="c-load", size="md")
        self.fields = [self.model, self.draft, self.ctx]

    def wire(self) -> None:
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
        # Comparing vocabularies opens files: it waits until somebody wants to see the drafts.
        self.fold.expand(self._opened, self.model, [self.draft, self.others], **quiet)
        self.model.input(self._another, self.model, [self.draft, self.others], **quiet)
        self.button.click(self.choose, self.fields, None, **quiet)

    def values(self) -> list[str]:
        """What `fields` show of the last choice."""
        return [self.last.model or "default", self.last.draft or AUTOMATIC, str(self.last.options.ctx or "")]

    def _opened(self, model: str) -> tuple[Any, str]:
        offers = drafts_for(model)
        return gr.update(choices=choices(offers)), refused(offers)

    def _another(self, model: str) -> tuple[Any, str]:
        offers = drafts_for(model)
        return gr.update(choices=choices(offers), value=AUTOMATIC), refused(offers)

    def choose(self, model: str, draft: str, ctx: str) -> None:
        """Loads this pair and remembers it."""
        if ctx.strip() and not ctx.strip().isdecimal():
            gr.Warning(toast(f"The context must be a number of tokens, not {ctx!r}."))
            return
        chosen, n_ctx = None if draft == AUTOMATIC else draft, int(ctx) if ctx.strip() else None
        self.memory.change(model=model or None, draft=chosen, ctx=n_ctx)
        self.last = Choice(model or None, chosen, replace(self.last.options, ctx=n_ctx), fetch=True)
        self.load(self.last)


def choices(offers: list[Offer]) -> list[tuple[str, str]]:
    """The drafts to choose from: (what is shown, what it stands for)."""
    return FIXED + [(offer.label, offer.spec) for offer in offers if not offer.refused]


def refused(offers: list[Offer]) -> str:
    """The others and why not, as Markdown."""
    lines = [markdown(f"- {offer.name}: {offer.refused}") for offer in offers if offer.refused]
    return "\n".join(["Not offered as drafts for this model:", *lines]) if lines else ""
