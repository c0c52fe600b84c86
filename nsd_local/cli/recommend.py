"""`nsd-local recommend`: which pair of the catalog to use on this machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from nsd_local.decoding.costs import Costs
    from nsd_local.measure.recommend import Machine


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
    from nsd_local.measure import recommend as rules

    machine, calibrations = look(memory)
    checking = rules.checking(machine, calibrations)
    found = rules.recommend(load_catalog(), machine, checking)
    why = rules.rule(checking, machine)
    if as_json:
        rows = [
            {"pair": r.pair.name, "memory_gib": r.pair.memory_gib, "gain": r.gain, "k": r.k, "wins": r.wins}
            for r in found
        ]
        print(json.dumps({"rule": why, "pairs": rows}, indent=1))
        return
    if not found:
        print("No pair of the catalog fits this machine's memory.")
    for r in found:
        verdict = (
            f"should win: about {r.gain:.1f} x plain decoding with k {r.k}" if r.wins else "drafting should not pay"
        )
        print(f"{r.pair.name:24} {r.pair.memory_gib:>4g} GiB  {verdict}")
    print(f"\n{why}")


def look(memory: float | None = None) -> tuple[Machine, list[Costs]]:
    """This machine, and the cost curves that were measured on it. Works without llama.cpp."""
    import psutil

    from nsd_local.engine import library
    from nsd_local.errors import NsdError
    from nsd_local.measure.recommend import Machine

    gpu_memory, calibrations = 0, []
    if library.is_installed():
        try:
            from nsd_local.decoding.calibration import kept
            from nsd_local.engine.devices import gpus

            gpu_memory = sum(device.total for device in gpus())
            calibrations = [costs for _, costs in kept()]
        except (NsdError, ImportError, OSError):
            pass
    size = int(memory * 2**30) if memory is not None else gpu_memory or psutil.virtual_memory().total
    return Machine(size, gpu=gpu_memory > 0), calibrations
