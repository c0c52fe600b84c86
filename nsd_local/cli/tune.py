"""`nsd-local tune`: measure a pair on this machine, and say what pays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nsd_local.cli.options import Options, with_options
from nsd_local.cli.reporter import reporter
from nsd_local.cli.status import status
from nsd_local.errors import UsageError

if TYPE_CHECKING:
    from nsd_local.decoding.settings import Settings
    from nsd_local.decoding.variants import Variant
    from nsd_local.loading import Loaded
    from nsd_local.measure.tune import Tuning


@with_options
def tune(
    options: Options,
    again: Annotated[bool, typer.Option("--requantize", help="Also try other quantizations of the draft.")] = False,
    seconds: Annotated[float, typer.Option("--seconds", help="Time for measuring passes.", min=1.0)] = 30.0,
    sample_tokens: Annotated[int, typer.Option("--sample-tokens", help="Tokens of each of 8 answers.", min=8)] = 48,
    costs: Annotated[Path | None, typer.Option("--costs", help="Write the cost curve to this file.")] = None,
    rounds: Annotated[Path | None, typer.Option("--rounds", help="Write acceptance along the answers here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Measure a pair on this machine: expected speed by draft length, the best setting, and a verdict.

    Takes about a minute. What it measures is used from then on by -k auto; the files of --costs and --rounds can be
    replayed by `nsd-local simulate`.
    """
    from nsd_local.loading import load_pair
    from nsd_local.measure.advice import table
    from nsd_local.measure.tune import tune as measure

    settings = options.settings()
    with reporter() as telling:
        loaded = load_pair(options.model, options.draft, options.loading(telling))
    try:
        tuning = measure(loaded, settings, seconds=seconds, tokens=sample_tokens, say=status)
        if costs is not None:
            costs.write_text(json.dumps(tuning.costs.to_dict(), indent=1), encoding="utf-8")
        if rounds is not None:
            _write_rounds(rounds, tuning)
        variant = _requantize(loaded, tuning, settings) if again else None
    finally:
        loaded.close()
    advice = tuning.advice
    if as_json:
        measured = None if variant is None else {"best": variant.type_ or "as it is", "expected": variant.measured}
        print(json.dumps({"advice": advice.to_dict(), "costs": tuning.costs.to_dict(), "requantized": measured}))
        return
    for row in table(advice):
        print("  ".join(cell.rjust(width) for cell, width in zip(row, (4, 11, 7, 7), strict=False)) + f"  {row[4]}")
    best = advice.best
    print(f"\nBest: {'-k ' + str(best.k) if best.k else 'plain decoding (-k 0)'}, {best.rate:.1f} tok/s expected.")
    print(advice.verdict)
    if variant is not None:
        print(
            f"Draft: {variant.type_ or 'as it is'} is fastest" + (", and is used from now on." if variant.file else ".")
        )


def _write_rounds(path: Path, tuning: Tuning) -> None:
    from nsd_local.decoding.records_io import Recording, write_recordings

    write_recordings(path, [Recording({**trace.about, "profile": trace.to_profile()}) for trace in tuning.traces])


def _requantize(loaded: Loaded, tuning: Tuning, settings: Settings) -> Variant:
    from nsd_local.measure.requantize import requantize

    if loaded.draft is None:
        raise UsageError("There is no draft model to requantize", "", "Name one with -d")
    return requantize(
        loaded.target.context,
        loaded.draft.file.path,
        tuning.samples,
        settings,
        options=(loaded.draft.model.options, loaded.draft.context.options),
        say=status,
    )
