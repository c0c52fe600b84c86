"""The round loop: propose, decode, verify, commit, record. The only loop in this program that emits tokens."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from time import perf_counter

import numpy as np

from nsd_local.decoding.adaptive import Adaptive
from nsd_local.decoding.constraint import Constraint
from nsd_local.decoding.controller import Choice, DraftLength, Fixed, tells_acceptance
from nsd_local.decoding.events import Event, Finished, Notice, Prefill, Step
from nsd_local.decoding.records import Round
from nsd_local.decoding.request import Request
from nsd_local.decoding.settings import Settings
from nsd_local.decoding.stopwatch import Stopwatch
from nsd_local.drafting.draft import Draft, Proposer
from nsd_local.drafting.model_draft import LONGEST_DRAFT
from nsd_local.engine.context import Context
from nsd_local.engine.prefill import prefill
from nsd_local.errors import Cancelled, UsageError
from nsd_local.sampling.penalties import check_biased
from nsd_local.verification.verifier import Verifier

NOTHING = Draft(np.empty(0, dtype=np.int32), None, "")


def never() -> bool:
    return False


class Decoder:
    """Turns prompt tokens into a stream of events; owns the target's context and the proposer.

    Between rounds the target's memory holds every token of the text but the last, which the next pass evaluates
    together with the drafts. `off` says why nothing is drafted although it could be expected; "" otherwise.
    """

    def __init__(
        self,
        target: Context,
        proposer: Proposer | None = None,
        *,
        off: str = "",
        adaptive: Callable[[Callable[[], bool]], DraftLength] = lambda cancelled: Adaptive(),
    ) -> None:
        self.target = target
        self.proposer = proposer
        self.off = off or ("" if proposer else "drafting is off: there is nothing to draft with")
        self.adaptive = adaptive  # makes the automatic draft length; may measure first, until it is told to stop
        self._verifier = Verifier(target.n_vocab, LONGEST_DRAFT)

    def stream(
        self, prompt: Sequence[int], settings: Settings, *, cancelled: Callable[[], bool] = never
    ) -> Generator[Event, None, None]:
        """Answers a prompt of token ids. A consumer may stop at any event: both memories are then consistent.

        Raises UsageError where the prompt is empty or does not fit the context, and for settings that cannot be used.
        """
        self._check(prompt, settings)
        constraint = Constraint.of(settings, self.target.model)
        length = self._length(settings, cancelled)
        drafting = not (isinstance(length, Fixed) and length.k == 0)
        request = Request(prompt, settings, self.target.model, length, drafting, constraint)
        length.begin(metered=settings.meter and tells_acceptance(request.rule), reproducible=settings.seed is not None)
        if not drafting:
            yield from self._notify(request, self.off or length.verdict())
        try:
            yield from self._prefill(request, cancelled)
            while not request.finish_reason:
                if cancelled():
                    request.finish_reason = "cancelled"
                elif len(self.target.tokens) >= self.target.n_ctx:
                    request.finish_reason = "length"
                    yield from self._notify(request, f"the context of {self.target.n_ctx:,} tokens is full")
                else:
                    yield Step(*self._round(request))
        except Cancelled:
            request.finish_reason = "cancelled"
        finally:
            request.close()
        if drafting and request.rounds and length.off:
            yield from self._notify(request, length.verdict())
        rest = request.text.flush()
        yield Finished(request.result(), rest)

    def _round(self, request: Request) -> tuple[Round, str]:
        clock = Stopwatch()
        target, settings = self.target, request.settings
        n_past = len(target.tokens)

        choice = self._choose(request, n_past)
        draft = self._propose(request, choice)
        k = len(draft.tokens)
        clock.lap("draft")

        logits = target.evaluate([request.last, *draft.tokens.tolist()], rows=k + 1)  # (k+1, V)
        clock.lap("verify")

        if request.adjust is not None:
            for i, row in enumerate(logits):
                request.adjust(row, draft.tokens[:i].tolist())
        verdict = self._verifier.verify(
            logits,
            draft.logits,
            draft.tokens,
            request.rng.random(k),
            request.rng.random(),
            settings.law,
            request.rule,
            meter=settings.meter,
            remaining=request.budget_left,
            exact_positions=request.exact_positions,
            relax_point_mass=settings.relax_point_mass,
            memory=request.rule_memory,
        )
        clock.lap("accept")

        tokens, text = request.deliver(draft, verdict)
        kept = [token.id for token in tokens]
        # n+1+a stay: `last`, and the accepted drafts as far as delivered (the final token is not evaluated yet).
        target.rewind(n_past + 1 + min(len(verdict.accepted), len(kept)))
        if self.proposer is not None and request.drafting:
            self.proposer.commit(kept)
        clock.lap("rollback")

        round_ = request.record(n_past, choice, draft, verdict, tokens, clock)
        request.length.observe(round_)
        return round_, text

    def _choose(self, request: Request, n_past: int) -> Choice:
        if not request.drafting or self.proposer is None:
            return Choice(0, self.off or request.length.verdict())
        limit = min(self.target.n_ctx - n_past - 1, LONGEST_DRAFT)
        if self.target.memory.max_rollback is not None:
            limit = min(limit, self.target.memory.max_rollback)
        if request.settings.max_tokens is not None:
            limit = min(limit, request.settings.max_tokens - request.emitted - 1)
        return request.length.choose(limit, n_past, self.proposer.offers(limit) if limit else ())

    def _propose(self, request: Request, choice: Choice) -> Draft:
        if choice.k == 0 or self.proposer is None:
            return NOTHING
        return self.proposer.propose(
            choice.k,
            request.draft_law,
            request.rng,
            None if isinstance(request.length, Fixed) else request.length.proceed,
            source=choice.source,
            adjust=request.adjust,
        )

    def _prefill(self, request: Request, cancelled: Callable[[], bool]) -> Iterator[Event]:
        """Reads what the memories lack of the prompt, the target's all but its last token."""
        start, prompt = perf_counter(), request.prompt
        target_chunks = prefill(self.target, prompt[:-1], cancelled=cancelled)
        draft_chunks: Iterator[int] = iter(())
        if self.proposer is not None and request.drafting:
            fresh = request.settings.seed is not None
            draft_chunks = self.proposer.begin(prompt, fresh=fresh, cancelled=cancelled)
            if not request.length.reads(self.proposer.offers(1), len(prompt), request.settings.max_tokens):
                draft_chunks = iter(())
        try:
            for chunk in target_chunks:
                request.prompt_n += chunk
                yield Prefill(len(self.target.tokens), len(prompt) - 1)
                if cancelled():
                    raise Cancelled("Stopped while reading the prompt")
            for _ in draft_chunks:
                if cancelled():
                    raise Cancelled("Stopped while reading the prompt")
        finally:
            request.prompt_s = perf_counter() - start
        request.cache_n = len(prompt) - request.prompt_n

    def _notify(self, request: Request, text: str) -> Iterator[Event]:
        if text:
            request.notices.append(text)
            yield Notice(text)

    def _length(self, settings: Settings, cancelled: Callable[[], bool]) -> DraftLength:
        """How k is chosen in this request."""
        if not settings.rule.drafts:
            return Fixed(0, f"the rule {settings.rule.name} decodes plainly")
        if self.proposer is None:
            return Fixed(0)  # `off` says why
        return self.adaptive(cancelled) if settings.draft_tokens == "auto" else Fixed(settings.draft_tokens)

    def _check(self, prompt: Sequence[int], settings: Settings) -> None:
        if not prompt:
            raise UsageError("The prompt is empty", "there is nothing to continue", "Give at least one token of text")
        if len(prompt) > self.target.n_ctx:
            raise UsageError(
                f"The prompt has {len(prompt):,} tokens",
                f"the context holds {self.target.n_ctx:,}",
                f"Shorten it, or load with --ctx {len(prompt) + 512} or more",
            )
        settings.rule.check_law(settings.law)
        check_biased((token for token, _ in settings.logit_bias), self.target.n_vocab)

    def forget(self, *, target: bool = True) -> None:
        """Empty both memories and what the proposer learned, so that the next answer starts as in a new process.

        Without `target` its memory stays: it holds what the tokens determine, so the answer is the same, only sooner.
        """
        if target:
            self.target.clear()
        if self.proposer is not None:
            self.proposer.forget()

    def close(self) -> None:
        if self.proposer is not None:
            self.proposer.close()
        self.target.close()
