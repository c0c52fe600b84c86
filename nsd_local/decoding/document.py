"""A result as one JSON document: what `generate --json` prints and other programs read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from nsd_local.decoding.records import Result, Token
from nsd_local.decoding.settings import Settings
from nsd_local.decoding.summary import Summary

SCHEMA_VERSION = 1


def document(result: Result, settings: Settings, models: Mapping[str, Any], *, tokens: bool = False) -> dict[str, Any]:
    """The document of a result; with `tokens` it lists every emitted token too. Unknown numbers are None (null)."""
    summary = Summary(result.rounds)
    doc = {
        "schema_version": SCHEMA_VERSION,
        "text": result.text,
        "finish_reason": result.finish_reason,
        "usage": {"prompt_tokens": result.prompt_tokens, "completion_tokens": len(summary.tokens)},
        "timings": _timings(result, summary),
        "speculation": _speculation(result, settings, summary),
        "models": dict(models),
        "settings": _settings(result, settings),
        "notices": list(result.notices),
    }
    if tokens:
        doc["tokens"] = [_token(token) for token in summary.tokens]
    return doc


def _timings(result: Result, summary: Summary) -> dict[str, Any]:
    first = result.time_to_first_token_s
    return {
        "prompt_n": result.prompt_n,
        "cache_n": result.cache_n,
        "prompt_ms": 1e3 * result.prompt_s,
        "predicted_n": len(summary.tokens),
        "predicted_ms": 1e3 * result.predicted_s,
        "predicted_per_second": summary.tokens_per_second,
        "draft_n": summary.drafted,
        "draft_n_accepted": summary.accepted,
        "load_ms": 1e3 * result.load_s,
        "time_to_first_token_ms": None if first is None else 1e3 * first,
    }


def _speculation(result: Result, settings: Settings, summary: Summary) -> dict[str, Any]:
    kinds = summary.kinds
    return {
        "rule": settings.rule.name,
        "theta": getattr(settings.rule, "theta", None),
        "strength": getattr(settings.rule, "strength", None),
        "active": result.active,
        "reason": result.reason,
        "rounds": len(result.rounds),
        "drafted": summary.drafted,
        "accepted_ratio": kinds["ratio"],
        "accepted_nucleus": kinds["nucleus"],
        "recovered": kinds["recovered"],
        "bonus": kinds["bonus"],
        "plain": kinds["plain"],
        "acceptance_rate": summary.acceptance_rate,
        "acceptance_per_position": summary.acceptance_per_position,
        "mean_accepted_length": summary.mean_accepted_length,
        "deviation_sum": _number(summary.deviation_sum),
        "deviation_max": _number(summary.deviation_max),
        "divergence_mean": summary.divergence_mean,
        "time_split": asdict(summary.times),
    }


def _settings(result: Result, settings: Settings) -> dict[str, Any]:
    return {
        **asdict(settings),
        "rule": {"name": settings.rule.name, **asdict(settings.rule)},
        "seed": result.seed,
    }


def _token(token: Token) -> dict[str, Any]:
    return {
        "id": token.id,
        "text": token.text,
        "kind": token.kind,
        "p": _number(token.p),
        "q": None if token.q is None else _number(token.q),
        "target_rank": token.target_rank,
        "divergence": None if token.divergence is None else _number(token.divergence),
        "deviation": _number(token.deviation),
        "round": token.round,
    }


def _number(value: float) -> float | None:
    """JSON has no NaN (what the meter did not measure)."""
    return None if math.isnan(value) else value
