"""One answer of one arm, started like in a new process, and what it showed as a flat row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from time import perf_counter
from typing import Any

from nsd_local.api import Engine
from nsd_local.decoding.decoder import never
from nsd_local.decoding.records import Result, Times
from nsd_local.decoding.summary import Summary
from nsd_local.errors import Cancelled, NsdError
from nsd_local.measure.arms import BARE, Arm
from nsd_local.measure.prompts import Prompt

Row = dict[str, Any]
BARE_TOKENS = 128  # where max_tokens is not set


@dataclass(frozen=True, slots=True)
class Run:
    """An answer, or why there is none."""

    arm: Arm
    prompt: Prompt
    seed: int
    repeat: int
    started: str  # ISO, UTC
    tokens: tuple[int, ...]  # of the prompt
    result: Result | None = None
    error: str = ""

    @property
    def key(self) -> Row:
        """What identifies it within a measurement."""
        return {"arm": self.arm.name, "prompt": self.prompt.id, "seed": self.seed, "repeat": self.repeat}


def run(
    engine: Engine,
    arm: Arm,
    prompt: Prompt,
    seed: int,
    repeat: int = 0,
    *,
    system: str | None = None,
    reuse: bool = False,
    cancelled: Callable[[], bool] = never,
) -> Run:
    """Answers `prompt` with both memories and everything learned from earlier answers cleared first.

    With `reuse` the target need not read again what it has read for the arm before. A failure is part of the result,
    not an exception; only Cancelled is raised.
    """
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    tokens: list[int] = []
    try:
        engine.decoder.forget(target=not reuse)
        tokens = engine.tokens(prompt.text, system=system)
        settings = replace(arm.settings, seed=seed)
        if arm.name == BARE:
            result = _bare(engine, tokens, settings.max_tokens or BARE_TOKENS)
        else:
            result = engine.generate(prompt.text, settings, system=system, cancelled=cancelled)
    except Cancelled:
        raise
    except NsdError as error:
        return Run(arm, prompt, seed, repeat, started, tuple(tokens), error=str(error))
    if result.finish_reason == "cancelled":
        raise Cancelled("The measurement was stopped")
    return Run(arm, prompt, seed, repeat, started, tuple(tokens), result)


def _bare(engine: Engine, prompt: list[int], n: int) -> Result:
    """Evaluates n tokens one by one without sampling, as llama-bench does: what plain decoding may at best reach.

    The tokens are the prompt's own over again; which ones they are has no influence on the time.
    """
    target = engine.decoder.target
    target.clear()
    n = min(n, target.n_ctx - len(prompt))
    start = perf_counter()
    target.prefill(prompt[:-1])
    ready = perf_counter()
    for i in range(n):
        target.evaluate([prompt[i % len(prompt)]], rows=1)
    end = perf_counter()
    return Result(
        text="",
        finish_reason="length",
        seed=0,
        prompt_tokens=len(prompt),
        prompt_n=len(prompt),
        cache_n=0,
        prompt_s=ready - start,
        predicted_s=end - ready,
        time_to_first_token_s=None,
        load_s=0.0,
        rounds=(),
        active=False,
        reason=f"{n} tokens evaluated one by one, nothing sampled",
    )


def row(run: Run, setup: Mapping[str, Any]) -> Row:
    """Everything about a run in flat JSON values. Names as in llama-bench and in the timings of llama-server; what
    could not be measured is None."""
    settings = run.arm.settings
    values: Row = {
        **run.key,
        "prompt_kind": run.prompt.kind,
        "error": run.error or None,
        **_timings(run),
        **_speculation(run),
        **{key: value for key, value in run.arm.describe().items() if key != "arm"},
        "temperature": settings.law.temperature,
        "top_k": settings.law.top_k,
        "top_p": settings.law.top_p,
        "min_p": settings.law.min_p,
        "repeat_penalty": settings.penalties.repeat,
        "max_tokens": settings.max_tokens,
        "test_time": run.started,
        **setup,
    }
    return {key: _number(value) for key, value in values.items()}


def _timings(run: Run) -> Row:
    result = run.result
    if result is None:
        return {}
    n, seconds = _predicted(run, result)
    summary = Summary(result.rounds)
    return {
        "cache_n": result.cache_n,
        "prompt_n": result.prompt_n,
        "prompt_ms": 1e3 * result.prompt_s,
        "prompt_per_second": _rate(result.prompt_n - 1, result.prompt_s),
        "predicted_n": n,
        "predicted_ms": 1e3 * seconds,
        "predicted_per_second": _rate(n, seconds),
        "draft_n": summary.drafted,
        "draft_n_accepted": summary.accepted,
    }


def _predicted(run: Run, result: Result) -> tuple[int, float]:
    """Tokens emitted, and the seconds of their rounds."""
    if run.arm.name == BARE:
        return int(result.reason.split()[0]), result.predicted_s
    summary = Summary(result.rounds)
    return len(summary.tokens), summary.times.total


def _speculation(run: Run) -> Row:
    result = run.result
    if result is None:
        return {}
    summary = Summary(result.rounds)
    times: Times = summary.times
    n = len(summary.tokens)
    return {
        "rounds": len(result.rounds),
        "acceptance_rate": summary.acceptance_rate,
        "mean_accepted_length": summary.mean_accepted_length,
        "accepted_ratio": summary.kinds["ratio"],
        "accepted_nucleus": summary.kinds["nucleus"],
        "deviation_sum": summary.deviation_sum,
        "deviation_max": summary.deviation_max,
        "deviation_per_token": summary.deviation_sum / n if n else None,
        "divergence_mean": summary.divergence_mean,
        **{f"{part}_ms": 1e3 * seconds for part, seconds in asdict(times).items()},
        "finish_reason": result.finish_reason,
        "active": result.active,
        "reason": result.reason,
    }


def _rate(n: int, seconds: float) -> float | None:
    return n / seconds if n > 0 and seconds > 0 else None


def _number(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
