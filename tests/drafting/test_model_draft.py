"""A draft model's memory: what it reads of a prompt, what it leaves, and how reading is stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nsd_local.decoding.controller import Fixed
from nsd_local.decoding.settings import Settings
from nsd_local.drafting.model_draft import LONG, ModelDraft
from nsd_local.drafting.offer import Offer
from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions
from nsd_local.errors import Cancelled
from nsd_local.sampling.law import Law
from nsd_local.verification.rule import Exact
from tests.decoding.decoders import decoder, run

GREEDY = Settings(law=Law(temperature=0.0), rule=Exact(), draft_tokens=4, max_tokens=12, seed=1)


class Unread(Fixed):
    """A length for which the prompt is left to the first proposal."""

    def reads(self, offers: Sequence[Offer], context: int, tokens: int | None) -> bool:
        return False


def prompt(n: int) -> list[int]:
    return np.random.default_rng(n).integers(0, 250, n).tolist()


def test_a_prompt_behind_which_no_draft_fits_is_not_read(tiny_target: Path, tiny_draft: Path) -> None:
    with decoder(tiny_target, tiny_draft, n_ctx=1024, draft_ctx=256) as loop:
        assert isinstance(loop.proposer, ModelDraft)
        n_ctx = loop.proposer.context.n_ctx
        longer = run(loop, GREEDY, prompt(n_ctx + 1))
        assert longer.rounds
        assert not longer.active
        assert longer.notices == (longer.reason,) == ("drafting is off: nothing to propose",)
        assert loop.proposer.context.tokens == []
        assert run(loop, GREEDY, prompt(n_ctx - 40)).active


@pytest.mark.parametrize("read", [True, False])
def test_a_stop_is_heard_while_it_reads(
    tiny_target: Path, tiny_draft: Path, monkeypatch: pytest.MonkeyPatch, read: bool
) -> None:
    """In its own prefill, and where it reads what it missed before it drafts."""
    monkeypatch.setattr("nsd_local.engine.abort._INTERVAL", 0.0)
    length = Fixed(4) if read else Unread(4)
    with decoder(tiny_target, tiny_draft, n_ctx=1024) as loop:
        assert isinstance(loop.proposer, ModelDraft)
        held = loop.proposer.context
        loop.adaptive = lambda _: length
        settings = replace(GREEDY, draft_tokens="auto")
        expected = run(loop, settings, prompt(200))
        loop.forget()
        *_, last = loop.stream(prompt(200), settings, cancelled=lambda: held._busy)  # while it evaluates
        assert (last.result.finish_reason, last.result.rounds) == ("cancelled", ())
        assert held.tokens == []
        assert run(loop, settings, prompt(200)).text == expected.text


@pytest.mark.parametrize("missed", [1, LONG, LONG + 1, 300])
def test_however_much_it_missed_it_drafts_the_same(tiny_target: Path, missed: int) -> None:
    text = prompt(400)
    with Model.load(tiny_target) as model, Context(model, ContextOptions(n_ctx=512, threads=1)) as context:
        draft = ModelDraft(context, model.n_vocab)
        drafts = []
        for read in (len(text), len(text) - missed):
            draft.forget()
            list(draft.begin(text[:read]))
            draft.commit(text[read:])
            drafts.append(draft.propose(4, GREEDY.law, np.random.default_rng(0)).tokens.tolist())
    assert len(drafts[0]) == 4
    assert drafts[0] == drafts[1]


def test_stopped_while_it_catches_up_it_goes_on_later(tiny_target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nsd_local.engine.abort._INTERVAL", 0.0)
    with Model.load(tiny_target) as model, Context(model, ContextOptions(n_ctx=512, threads=1)) as context:
        draft, stop = ModelDraft(context, model.n_vocab), True
        draft.begin(prompt(300), cancelled=lambda: stop)
        with pytest.raises(Cancelled):
            draft.propose(4, GREEDY.law, np.random.default_rng(0))
        assert context.tokens == []
        stop = False
        assert len(draft.propose(4, GREEDY.law, np.random.default_rng(0)).tokens) == 4
