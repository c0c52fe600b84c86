"""Calibrations kept over runs: measured once, valid for one machine, build, pair of files and settings."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, strftime, time
from typing import Any

import psutil

from nsd_local.catalog.home import home
from nsd_local.catalog.store import write_atomically
from nsd_local.decoding.calibrate import Calibration
from nsd_local.decoding.costs import Costs
from nsd_local.decoding.decoder import never
from nsd_local.engine import library
from nsd_local.engine.context import Context
from nsd_local.errors import UsageError

QUICK = 9.0  # seconds that the measurement on first use may take
FORMAT = 1
FEWEST = 4  # widths without which no draft length can be judged
BUSY = 60.0  # percent of the processor that others use
DOUBTFUL = 3600.0  # seconds that a measurement taken meanwhile is used
RETRY = 600.0  # seconds after which a measurement that failed is tried again


def calibrated(
    target: Context,
    draft: Context | None,
    *,
    seconds: float = QUICK,
    again: bool = False,
    say: Callable[[str], None] = lambda line: None,
    cancelled: Callable[[], bool] = never,
) -> Costs | None:
    """The costs of this pair here: from the cache, else measured within `seconds` and kept.

    The contexts must be empty. `again` measures anew. A cache that cannot be written costs a repetition, no more.
    None where the machine is too busy to measure anything of use; that is tried again after `RETRY` seconds. A doubtful
    measurement is used, but taken again after `DOUBTFUL` seconds. Raises Cancelled.
    """
    known = None if again else recall(target, draft)
    if known is not None:
        return known
    if not again and _failed(target, draft):
        return None
    say(f"Measuring this pair on this machine, once (about {seconds:.0f} s)")
    start, busy = perf_counter(), psutil.cpu_percent(0.1)
    calibration = Calibration(target, draft, seconds, cancelled=cancelled)
    costs = calibration.run()
    if len(costs.widths) < FEWEST:
        remember(target, draft, None, good_for=RETRY)
        say(
            "This machine is too slow or too busy to be measured in that time; speeds are learned while it runs. "
            "`nsd-local tune` takes more time for it"
        )
        return None
    note = f"measured on {cpu_name()} in {perf_counter() - start:.1f} s, {strftime('%Y-%m-%d')}"
    doubtful = busy > BUSY or not calibration.steady
    if doubtful:
        note += ", while others were using the machine"
        say("Others are using this machine: it will be measured again later")
    costs = Costs(costs.curves, costs.overhead, note)
    remember(target, draft, costs, good_for=DOUBTFUL if doubtful else None)
    return costs


def recall(target: Context, draft: Context | None) -> Costs | None:
    """The kept calibration, if nothing that it depends on has changed."""
    try:
        return Costs.from_dict(_kept(target, draft)["costs"])
    except (KeyError, UsageError):
        return None


def _failed(target: Context, draft: Context | None) -> bool:
    """Was this pair tried in vain a short while ago?"""
    return _kept(target, draft).get("costs", True) is None


def _kept(target: Context, draft: Context | None) -> dict[str, Any]:
    """What `remember` wrote, while it is good; else empty."""
    key = identity(target, draft)
    try:
        data = json.loads(_path(key).read_text(encoding="utf-8"))
        expired = data["until"] is not None and time() > data["until"]
        return dict(data) if data["key"] == key and not expired else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def remember(target: Context, draft: Context | None, costs: Costs | None, *, good_for: float | None = None) -> bool:
    """Keep a calibration (None: that there is none), for `good_for` seconds or for good; False where the cache folder
    cannot be written."""
    key = identity(target, draft)
    until = None if good_for is None else time() + good_for
    data = {"key": key, "until": until, "costs": costs.to_dict() if costs else None}
    try:
        _path(key).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(_path(key), json.dumps(data, indent=1))
    except OSError:
        return False
    return True


def kept() -> list[tuple[dict[str, Any], Costs]]:
    """All calibrations in the cache that were made on this machine with this build, each with what it depends on."""
    found = []
    for path in sorted((home() / "calibration").glob("*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if (data["key"]["cpu"], data["key"]["build"]) == (cpu_name(), library.llama_version()):
                found.append((data["key"], Costs.from_dict(data["costs"])))
        except (OSError, ValueError, KeyError, TypeError, UsageError):
            continue
    return found


def identity(target: Context, draft: Context | None) -> dict[str, Any]:
    """Everything that a calibration depends on."""
    return {
        "format": FORMAT,
        "cpu": cpu_name(),
        "cores": [psutil.cpu_count(logical=False), os.cpu_count()],
        "build": library.llama_version(),
        "features": library.system_info(),
        "target": _of(target),
        "draft": None if draft is None else _of(draft),
    }


def cpu_name() -> str:
    """The processor, for people."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _of(context: Context) -> dict[str, Any]:
    file, options, plan = context.model.file, context.options, context.plan
    return {
        "file": str(file.path.resolve()),
        "size": file.size,
        "changed": file.path.stat().st_mtime_ns,
        "header": file.header_sha256,
        "gpu_layers": context.model.choices["gpu layers"].value,
        "device": context.model.options.device,
        "lora": [[str(adapter.path), adapter.scale] for adapter in context.model.options.lora],
        "threads": plan.threads,
        "batch": [options.n_batch, plan.n_ubatch],
        "cache": [options.cache_type_k, options.cache_type_v, options.offload_cache, plan.flash_attention],
    }


def _path(key: dict[str, Any]) -> Path:
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return home() / "calibration" / f"{digest[:24]}.json"
