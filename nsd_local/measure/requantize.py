"""Tries other quantizations of a draft: they change its speed and acceptance, never the law of `exact`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import strftime

from nsd_local.decoding import variants
from nsd_local.decoding.calibration import calibrated, cpu_name
from nsd_local.decoding.settings import Settings
from nsd_local.decoding.variants import Variant
from nsd_local.engine import library
from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions, ModelOptions
from nsd_local.engine.quantize import quantize
from nsd_local.errors import DecodeError, NsdError
from nsd_local.measure.advice import advise
from nsd_local.measure.tune import Sample, compare

TYPES = ("Q4_0", "IQ4_NL", "Q8_0")
Say = Callable[[str], None]


def requantize(
    target: Context,
    draft: Path,
    samples: Sequence[Sample],
    settings: Settings,
    *,
    options: tuple[ModelOptions, ContextOptions],
    types: Sequence[str] = TYPES,
    seconds: float = 9.0,
    say: Say = lambda line: None,
) -> Variant:
    """Makes variants of `draft`, predicts the best speed of each with this target, and keeps the fastest.

    `samples` are answers of the target on which acceptance is measured, the same for every variant. `options` are
    those that the draft is loaded with. The losers are deleted; `decoding.variants.best_draft` finds the winner.
    Raises NsdError where the draft itself cannot be used, OSError where the cache cannot be written.
    """
    stat = draft.stat()
    speeds = {"": _speed(target, draft, samples, settings, options, seconds, say)}
    say(f"{draft.name} as it is: {speeds['']:.1f} tok/s expected")
    for type_ in types:
        path = variants.path_for(draft, type_)
        try:
            say(f"Requantizing {draft.name} to {type_}")
            quantize(draft, path, type_, whole=True)
            speeds[type_] = _speed(target, path, samples, settings, options, seconds, say)
            say(f"{type_}: {speeds[type_]:.1f} tok/s expected")
        except NsdError as error:
            say(f"{type_}: {error}")
    best = max(speeds, key=lambda type_: speeds[type_])
    path = variants.path_for(draft, best)
    variant = Variant(
        source=str(draft),
        source_size=stat.st_size,
        source_changed=stat.st_mtime_ns,
        target=target.model.path.name,
        type_=best,
        file=path.name if best else "",
        size=path.stat().st_size if best else stat.st_size,
        measured=speeds,
        build=library.llama_version(),
        machine=cpu_name(),
        date=strftime("%Y-%m-%d"),
    )
    variants.remember(variant)
    return variant


def _speed(
    target: Context,
    draft: Path,
    samples: Sequence[Sample],
    settings: Settings,
    options: tuple[ModelOptions, ContextOptions],
    seconds: float,
    say: Say,
) -> float:
    """Expected tokens per second of the pair at its best draft length, 0 included."""
    target.clear()
    with Model.load(draft, options[0]) as model, Context(model, options[1]) as context:
        costs = calibrated(target, context, seconds=seconds, say=say)
        if costs is None:
            raise DecodeError("The machine was too busy to measure this draft")
        traces = compare(target, context, samples, settings)
        advice = advise(costs, traces, settings.rule, target=target.model.path.name, draft=draft.name)
    return max(row.rate for row in advice.rows)
