"""Model and draft pickers: only pairs that fit, and why the others do not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gradio as gr

from .choice import Choice
from .pairs import Offer, drafts_for, targets
from .talk import Talk

AUTOMATIC = "automatic"


class Picker:
    """Chooses the pair. Loading starts with the button, after the running answer."""

    def __init__(self, talk: Talk, base: Choice) -> None:
        self.talk, self.base = talk, base
        now = talk.memory.now
        with gr.Accordion("Models", open=False):
            self.model = gr.Dropdown(
                self._models(),
                value=now.model or base.model or "default",
                label="Model",
                info="The target: it decides what is said. A catalog name, a GGUF path, or hf-repo:quant.",
                allow_custom_value=True,
                interactive=True,
                elem_id="c-model",
            )
            self.draft = gr.Dropdown(
                self._drafts(now.model or base.model or "default"),
                value=now.draft or base.draft or AUTOMATIC,
                label="Draft",
                info="It guesses ahead. Only drafts with the same vocabulary are offered.",
                allow_custom_value=True,
                interactive=True,
                elem_id="c-draft",
            )
            self.others = gr.Markdown(self._refused(now.model or base.model or "default"), elem_id="c-others")
            self.ctx = gr.Textbox(
                str(now.ctx or ""),
                label="Context",
                info="Tokens of prompt and answers; empty chooses what fits.",
                max_lines=1,
                elem_id="c-ctx",
            )
            self.load = gr.Button("Load this pair", elem_id="c-load", size="md")

    def wire(self) -> None:
        quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
        self.model.change(self._offer, self.model, [self.draft, self.others], **quiet)
        self.load.click(self._load, [self.model, self.draft, self.ctx], None, **quiet)

    def _models(self) -> list[tuple[str, str]]:
        return [(offer.label, offer.spec) for offer in targets()]

    def _drafts(self, model: str) -> list[tuple[str, str]]:
        fixed = [
            ("automatic: the pair's own", AUTOMATIC),
            ("none: plain decoding", "none"),
            ("ngram: prompt lookup", "ngram"),
            ("auto: prompt lookup and the pair's own", "auto"),
        ]
        return fixed + [(offer.label, offer.spec) for offer in drafts_for(model) if not offer.refused]

    def _refused(self, model: str) -> str:
        offers: list[Offer] = [offer for offer in drafts_for(model) if offer.refused]
        if not offers:
            return ""
        lines = "\n".join(f"- {offer.name}: {offer.refused}" for offer in offers)
        return f"Not offered as drafts for this model:\n{lines}"

    def _offer(self, model: str) -> tuple[Any, str]:
        return gr.update(choices=self._drafts(model), value=AUTOMATIC), self._refused(model)

    def _load(self, model: str, draft: str, ctx: str) -> None:
        if ctx.strip() and not ctx.strip().isdigit():
            gr.Warning(f"The context must be a number of tokens, not {ctx!r}.")
            return
        chosen = None if draft == AUTOMATIC else draft
        now = self.talk.memory.change(model=model or None, draft=chosen, ctx=int(ctx) if ctx.strip() else None)
        self.talk.session.open(replace(now.choice(self.base), draft=chosen or self.base.draft, fetch=True))
