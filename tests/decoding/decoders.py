"""Decoders over tiny models, for the tests of the loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nsd_local.decoding.decoder import Decoder
from nsd_local.decoding.events import Event, Finished, Step
from nsd_local.decoding.records import Result
from nsd_local.decoding.settings import Settings
from nsd_local.drafting.model_draft import ModelDraft
from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions

PROMPT = [72, 101, 108, 108, 111, 44, 32, 119]  # any bytes will do for a random model


@contextmanager
def decoder(target: Path, draft: Path | None, n_ctx: int = 512, draft_ctx: int | None = None) -> Iterator[Decoder]:
    """A decoder of its own contexts, freed in the right order."""
    with Model.load(target) as model, Context(model, ContextOptions(n_ctx=n_ctx, threads=1)) as context:
        if draft is None:
            yield Decoder(context)
            return
        options = ContextOptions(n_ctx=draft_ctx or n_ctx, threads=1)
        with Model.load(draft) as small, Context(small, options) as memory:
            yield Decoder(context, ModelDraft(memory, model.n_vocab))


def run(decoder: Decoder, settings: Settings, prompt: Sequence[int] = PROMPT) -> Result:
    """The result of one request."""
    *_, last = decoder.stream(prompt, settings)
    assert isinstance(last, Finished)
    return last.result


def ids(result: Result) -> list[int]:
    """Ids of all emitted tokens."""
    return [token.id for round_ in result.rounds for token in round_.tokens]


def streamed(events: list[Event]) -> str:
    """The text that a consumer saw."""
    return "".join(event.text for event in events if isinstance(event, Step | Finished))


def fresh_logits(path: Path, tokens: Sequence[int]):
    """(V,) float32 logits after `tokens` in a context that held nothing before."""
    with Model.load(path) as model, Context(model, ContextOptions(n_ctx=512, threads=1)) as context:
        return context.evaluate(list(tokens), rows=1)[0].copy()
