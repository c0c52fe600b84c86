"""`nsd-local recommend`: which pair of the catalog to use on this machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from nsd_local.measure.recommend import Calibrated, Machine, Recommendation


def recommend(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    memory: Annotated[
        float | None, typer.Option("--memory", help="Memory for models in GiB.", show_default="what this machine has")
    ] = None,
) -> None:
    """Say which pairs of the catalog fit this machine, and which should be faster with drafting.

    The rule that was used is printed with the result; `nsd-local tune` measures a pair instead.
    """
    from nsd_local.catalog.catalog import load_catalog
    from nsd_local.catalog.store import Store
    from nsd_local.measure import recommend as rules

    machine, calibrations = look(memory)
    checking = rules.checking(machine, calibrations)
    found = rules.recommend(load_catalog(), machine, checking)
    why = rules.rule(checking, machine)
    records = {record.name for record in Store().records()}
    here = {r.pair.name for r in found if {r.pair.target, r.pair.draft} <= records}
    if as_json:
        print(json.dumps({"rule": why, "pairs": [row(r, r.pair.name in here) for r in found]}, indent=1))
        return
    if not found:
        print("No pair of the catalog fits this machine's memory.")
    else:
        print(f"   {'pair':24}  {'memory':>6}  {'tok/s':>5}  drafting")
    for r in found:
        star, rate = "*" if r.pair.name in here else " ", "?" if r.rate is None else f"{r.rate:.1f}"
        print(f"{star}  {r.pair.name:24}  {r.pair.memory_gib:>2g} GiB  {rate:>5}  {verdict(r)}")
    print("\n* is on this machine." if here else "")
    print(why)


def verdict(one: Recommendation) -> str:
    """Whether to draft with this pair here."""
    if one.slow:
        return f"too slow here ({one.rate:.1f} tok/s)"
    if one.wins:
        return f"should win: about {one.gain:.1f} x plain decoding with k {one.k}"
    return "should not pay"


def row(one: Recommendation, here: bool) -> dict[str, Any]:
    """A recommendation for `--json`."""
    return {
        "pair": one.pair.name,
        "memory_gib": one.pair.memory_gib,
        "gain": one.gain,
        "k": one.k,
        "wins": one.wins,
        "tokens_per_second": one.rate,
        "too_slow": one.slow,
        "here": here,
    }


def look(memory: float | None = None) -> tuple[Machine, list[Calibrated]]:
    """This machine, and the cost curves that were measured on it. Works without llama.cpp."""
    import psutil

    from nsd_local.engine import library
    from nsd_local.errors import NsdError
    from nsd_local.measure.recommend import Calibrated, Machine

    gpu_memory = 0
    calibrations: list[Calibrated] = []
    if library.is_installed():
        try:
            from nsd_local.decoding.calibration import kept
            from nsd_local.engine.devices import gpus

            gpu_memory = sum(device.total for device in gpus())
            calibrations = [Calibrated(int(key["target"]["size"]), costs) for key, costs in kept()]
        except (NsdError, ImportError, OSError):
            pass
    size = int(memory * 2**30) if memory is not None else gpu_memory or psutil.virtual_memory().total
    return Machine(size, gpu=gpu_memory > 0), calibrations
