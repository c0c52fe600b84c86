"""The state of one request while it is answered: random numbers, ledger, text, records."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nsd_local.decoding.constraint import Constraint
from nsd_local.decoding.controller import Choice, DraftLength
from nsd_local.decoding.records import FinishReason, Result, Round, Token
from nsd_local.decoding.settings import Settings
from nsd_local.decoding.stopwatch import Stopwatch
from nsd_local.decoding.text import TextAssembler
from nsd_local.drafting.draft import Draft
from nsd_local.drafting.model_draft import LONGEST_DRAFT
from nsd_local.engine.model import Model
from nsd_local.sampling.law import Law
from nsd_local.sampling.penalties import bias, penalize
from nsd_local.verification.verdict import Kind, Verdict

Emitted = tuple[int, Kind, float, float | None, int, float | None, float]  # id, kind, p, q, rank, divergence, deviation


class Request:
    """What a request has done so far, and when it is over."""

    def __init__(
        self,
        prompt: Sequence[int],
        settings: Settings,
        model: Model,
        length: DraftLength,
        drafting: bool,
        constraint: Constraint | None = None,
    ) -> None:
        self.prompt = list(prompt)
        self.settings = settings
        self.length = length
        self.drafting = drafting
        self.model = model
        self.seed = secrets.randbits(32) if settings.seed is None else settings.seed
        self.rng = np.random.default_rng(self.seed)
        self.text = TextAssembler(settings.stop)
        self.rule = settings.verified_by
        # A rule that drafts greedily (llama.cpp's `match`) draws its drafts from a point mass.
        self.draft_law = Law(temperature=0.0) if self.rule.greedy_draft else settings.law
        self.rule_memory = self.rule.start()
        self.constraint = constraint  # owned
        self.adjust = self._adjust if settings.penalties.active or settings.logit_bias or constraint else None
        self._bias = dict(settings.logit_bias)
        self.tokens = list(prompt)  # prompt and answer so far
        self.emitted = 0
        self.rounds: list[Round] = []
        self.notices: list[str] = []
        self.finish_reason: FinishReason | None = None
        self.prompt_n = 1  # the last prompt token is evaluated by the first round
        self.cache_n = 0
        self.prompt_s = 0.0
        self._budget_spent = 0.0

    @property
    def budget_left(self) -> float | None:
        budget = self.settings.budget
        return None if budget is None else max(0.0, budget - self._budget_spent)

    @property
    def last(self) -> int:
        """The one token of the text that the target has not evaluated yet."""
        return self.tokens[-1]

    @property
    def exact_positions(self) -> int:
        """How many of the next drafts must be verified exactly: all of them under a grammar."""
        return LONGEST_DRAFT if self.constraint else max(0, self.settings.exact_first - self.emitted)

    def _adjust(self, row: NDArray[np.float32], drafts: Sequence[int]) -> bool:
        """Bias, then penalties (llama.cpp's order), then the grammar, in place on the row that follows the text and
        these drafts. False where no token may follow.
        """
        bias(row, self._bias)
        penalize(row, [*self.settings.penalties.window(self.tokens), *drafts], self.settings.penalties)
        return self.constraint is None or self.constraint.mask(row, drafts)

    def deliver(self, draft: Draft, verdict: Verdict) -> tuple[list[Token], str]:
        """The tokens of a round that belong to the answer, and the text that became certain.

        Stops after an end-of-generation token, a completed stop string, or the last token asked for.
        """
        tokens: list[Token] = []
        text = ""
        for id_, kind, p, q, rank, divergence, deviation in _emitted(draft, verdict):
            ends = self.model.is_eog(id_)
            if not ends:
                text += self.text.feed(self.model.piece(id_))
            shown = "" if ends else self.text.last
            tokens.append(Token(id_, shown, kind, p, q, rank, divergence, deviation, len(self.rounds)))
            if ends:
                self.finish_reason = "stop"
            elif self.text.stopped is not None:
                self.finish_reason = "stop_string"
            elif self.emitted + len(tokens) == self.settings.max_tokens:
                self.finish_reason = "length"
            if self.finish_reason:
                break
        self.emitted += len(tokens)
        ids = [token.id for token in tokens]
        self.tokens += ids
        if self.constraint:
            self.constraint.commit(ids)
        return tokens, text

    def record(
        self,
        n_past: int,
        choice: Choice,
        draft: Draft,
        verdict: Verdict,
        tokens: list[Token],
        clock: Stopwatch,
    ) -> Round:
        """Writes the round down."""
        accepted, n = len(verdict.accepted), len(verdict.divergence)
        rejected = accepted if accepted < len(draft.tokens) else None
        self._budget_spent += float(verdict.deviation.sum())
        round_ = Round(
            index=len(self.rounds),
            n_past=n_past,
            k=len(draft.tokens),
            why=choice.why,
            source=draft.source,
            drafted=tuple(draft.tokens.tolist()),
            tokens=tuple(tokens),
            accepted=accepted,
            divergence=tuple(verdict.divergence.tolist()),
            excess=tuple(verdict.excess.tolist()),
            deviation=tuple(verdict.deviation.tolist()),
            rejected_rank=None if rejected is None or rejected >= n else int(verdict.rank[rejected]),
            rejected_in_nucleus=None if rejected is None or rejected >= n else bool(verdict.in_nucleus[rejected]),
            times=clock.times(),
        )
        self.rounds.append(round_)
        return round_

    def close(self) -> None:
        """Frees what the request owns."""
        if self.constraint:
            self.constraint.close()

    def _settled(self) -> tuple[Round, ...]:
        """The rounds with the final texts of their tokens, which join to the answer: the end of a text decides what an
        incomplete character, or a token in which a stop string begins, adds to it."""
        texts = iter(self.text.texts)
        settled = []
        for round_ in self.rounds:
            final = ["" if self.model.is_eog(token.id) else next(texts, "") for token in round_.tokens]
            if final != [token.text for token in round_.tokens]:
                tokens = (replace(token, text=text) for token, text in zip(round_.tokens, final, strict=True))
                round_ = replace(round_, tokens=tuple(tokens))
            settled.append(round_)
        return tuple(settled)

    def result(self) -> Result:
        """Everything that is known once the request is over."""
        first = self.prompt_s + self.rounds[0].times.total if self.rounds else None
        drafted = any(round_.k for round_ in self.rounds)
        return Result(
            text=self.text.text,
            finish_reason=self.finish_reason or "cancelled",
            seed=self.seed,
            prompt_tokens=len(self.prompt),
            prompt_n=self.prompt_n,
            cache_n=self.cache_n,
            prompt_s=self.prompt_s,
            predicted_s=sum(round_.times.total for round_ in self.rounds),
            time_to_first_token_s=first,
            load_s=0.0,
            rounds=self._settled(),
            active=drafted,
            reason=self.length.verdict() if self.drafting else self.notices[0],
            notices=tuple(self.notices),
        )


def _emitted(draft: Draft, verdict: Verdict) -> Iterator[Emitted]:
    """The kept drafts and the token that follows them, with what is known of each."""
    for i, kind in enumerate(verdict.accepted):
        yield (
            int(draft.tokens[i]),
            kind,
            float(verdict.p[i]),
            float(verdict.q[i]),
            int(verdict.rank[i]),
            float(verdict.divergence[i]),
            float(verdict.deviation[i]),
        )
    a, n = len(verdict.accepted), len(verdict.divergence)
    rejected = a < n  # the final token comes from the position of the first rejected draft
    yield (
        verdict.last_token,
        verdict.last_kind,
        verdict.last_p,
        None,
        verdict.last_rank,
        float(verdict.divergence[a]) if rejected else None,
        float(verdict.deviation[a]) if rejected else verdict.last_deviation,
    )
