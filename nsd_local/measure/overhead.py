"""What the loop costs beside the models: plain decoding, a drafted token, and the time that belongs to nothing."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from nsd_local.api import Engine
from nsd_local.decoding.settings import Settings
from nsd_local.decoding.summary import Summary
from nsd_local.drafting.model_draft import ModelDraft
from nsd_local.errors import UsageError
from nsd_local.measure.arms import BARE, PLAIN, parse_arm
from nsd_local.measure.prompts import Prompt
from nsd_local.measure.runner import run
from nsd_local.measure.setup import draft_context
from nsd_local.verification.rule import Nucleus


@dataclass(frozen=True, slots=True)
class Overhead:
    """Medians over repeats that take turns; `limit` is what the project promises."""

    name: str
    value: float
    limit: float
    at_least: bool  # else at most
    samples: tuple[float, ...]

    @property
    def kept(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def plain(engine: Engine, prompt: Prompt, settings: Settings, repeats: int) -> Overhead:
    """Tokens per second of plain decoding through the loop, relative to evaluating as many tokens without sampling."""
    speeds: dict[str, list[float]] = {PLAIN: [], BARE: []}
    for repeat in range(repeats + 1):
        for name in sorted(speeds, reverse=bool(repeat % 2)):
            done = run(engine, parse_arm(name, settings), prompt, seed=0, repeat=repeat)
            if done.result is None:
                raise UsageError(f"{prompt.id} could not be answered", done.error)
            n = len(Summary(done.result.rounds).tokens) if name == PLAIN else settings.max_tokens or 0
            if repeat:  # the first of each warms up
                speeds[name].append(n / done.result.predicted_s)
    ratios = [a / b for a, b in zip(speeds[PLAIN], speeds[BARE], strict=True)]
    return Overhead("plain decoding / bare evaluation, tok/s", statistics.median(ratios), 0.97, True, tuple(ratios))


def drafting(engine: Engine, prompt: Prompt, settings: Settings, repeats: int, k: int = 8) -> Overhead:
    """Seconds per drafted token, relative to evaluating as many tokens one by one in the draft model."""
    context = draft_context(engine)
    if context is None:
        raise UsageError("There is no draft model to measure", "", "Name one with -d")
    engine.decoder.forget()
    proposer = ModelDraft(context, engine.target.n_vocab)
    tokens = engine.tokens(prompt.text)
    ratios = []
    for repeat in range(repeats + 1):
        for _ in proposer.begin(tokens):
            pass
        start = len(context.tokens)
        drafted: list[int] = []

        def draft(drafted: list[int] = drafted, repeat: int = repeat) -> None:
            drafted += proposer.propose(k, settings.law, np.random.default_rng(repeat)).tokens.tolist()

        def bare(drafted: list[int] = drafted) -> None:
            for token in [tokens[-1], *drafted[:-1]]:
                context.evaluate([token], rows=1)

        drafting_s = _timed(draft)
        context.rewind(start)
        bare_s = _timed(bare)
        context.rewind(start)
        if repeat:
            ratios.append(drafting_s / bare_s)
    engine.decoder.forget()
    return Overhead(
        "drafted token / bare draft evaluation, seconds", statistics.median(ratios), 1.08, False, tuple(ratios)
    )


def other(
    engine: Engine, prompt: Prompt, settings: Settings, repeats: int, ks: Sequence[int] = (0, 4)
) -> list[Overhead]:
    """Share of the rounds' time that is neither drafting, verifying, accepting nor rolling back."""
    found = []
    for k in ks:
        shares = []
        for repeat in range(repeats):
            engine.decoder.forget()
            chosen = replace(settings, draft_tokens=k, rule=Nucleus(), seed=repeat)
            times = Summary(engine.generate(prompt.text, chosen).rounds).times
            shares.append(times.other / times.total)
        found.append(Overhead(f"`other` / round time, k {k}", statistics.median(shares), 0.02, False, tuple(shares)))
    return found


def _timed(work: Callable[[], None]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start
