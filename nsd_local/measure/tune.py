"""Finds out what pays for a pair on this machine: measured costs, measured acceptance, and what they add up to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nsd_local.api import Engine
from nsd_local.decoding.calibration import calibrated
from nsd_local.decoding.costs import Costs
from nsd_local.decoding.settings import Settings
from nsd_local.engine.context import Context
from nsd_local.errors import DecodeError, UsageError
from nsd_local.loading import Loaded
from nsd_local.measure.advice import Advice, advise, keep
from nsd_local.measure.profile import profile
from nsd_local.measure.prompts import Prompt, interleaved, load_prompts
from nsd_local.measure.trace import Trace
from nsd_local.verification.rule import Exact

SEED = 20_240  # any; the same for every run, so that two tunings see the same texts
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sample:
    """A prompt and what the target answers to it, in token ids."""

    kind: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was measured, and what follows."""

    costs: Costs
    samples: tuple[Sample, ...]
    traces: tuple[Trace, ...]  # one per sample; none without a draft model
    advice: Advice


def tune(
    loaded: Loaded,
    settings: Settings,
    *,
    seconds: float = 30.0,
    tokens: int = 48,
    prompts: Sequence[Prompt] | None = None,
    say: Say = lambda line: None,
) -> Tuning:
    """Calibrates anew within `seconds`, lets the target answer some prompts, and compares the draft on these texts.

    Raises DecodeError where the machine is too busy to be measured.
    """
    target, draft = loaded.contexts["target"], loaded.contexts.get("draft")
    loaded.decoder.forget()
    costs = calibrated(target, draft, seconds=seconds, again=True, say=say)
    if costs is None:
        raise DecodeError(
            "This machine could not be measured",
            f"in {seconds:.0f} s it managed too few passes",
            "Close other programs, or give it more time with --seconds",
        )
    samples = sample(loaded, settings, tokens, prompts, say)
    traces = [] if draft is None else compare(target, draft, samples, settings, say)
    drafter = loaded.draft.file.name if loaded.draft else "prompt lookup"
    advice = advise(costs, traces, settings.rule, target=loaded.target.file.name, draft=drafter)
    keep(advice)
    return Tuning(costs, tuple(samples), tuple(traces), advice)


def sample(loaded: Loaded, settings: Settings, tokens: int, prompts: Sequence[Prompt] | None, say: Say) -> list[Sample]:
    """What the target says to one prompt of each kind, by its own law."""
    engine = Engine(loaded)
    chosen = interleaved(load_prompts(per_kind=1)) if prompts is None else prompts
    settings = replace(settings, rule=Exact(), max_tokens=tokens, seed=SEED, budget=None)
    samples = []
    for i, prompt in enumerate(chosen, 1):
        say(f"Answering sample {i} of {len(chosen)} ({prompt.id})")
        ids = engine.tokens(prompt.text)
        if len(ids) + tokens > engine.n_ctx:
            say(f"Left out: its {len(ids):,} tokens do not fit the context")
            continue
        result = engine.generate(ids, settings)
        answer = tuple(token.id for round in result.rounds for token in round.tokens)
        samples.append(Sample(prompt.kind, tuple(ids), answer))
    if not samples:
        raise UsageError(f"No sample fits a context of {engine.n_ctx:,} tokens", "", "Give a larger --ctx")
    loaded.decoder.forget()
    return samples


def compare(
    target: Context, draft: Context, samples: Sequence[Sample], settings: Settings, say: Say = lambda line: None
) -> list[Trace]:
    """How far target and draft are apart on the samples, for any rule."""
    say(f"Comparing the draft with the target on {sum(len(s.answer) for s in samples)} tokens")
    traces = [
        profile(target, draft, s.prompt, s.answer, settings.law, about={"kind": s.kind}) for s in samples if s.answer
    ]
    for memory in (target, draft):
        memory.clear()
    return traces
