"""What a measurement ran on: machine, build, files, settings of loading. Part of every row."""

from __future__ import annotations

import functools
import platform
from pathlib import Path
from typing import Any

import psutil

from nsd_local import __version__
from nsd_local.api import Engine
from nsd_local.catalog import Silent
from nsd_local.catalog.checksum import sha256_of
from nsd_local.engine import library
from nsd_local.engine.context import Context
from nsd_local.engine.devices import devices


def setup(engine: Engine) -> dict[str, Any]:
    """Flat JSON values; the names are those of llama-bench where it has them."""
    target = engine.decoder.target
    described = engine.describe()
    return {
        **machine(),
        **_model("model", target, described["target"]),
        **_draft(engine, described),
        **_granted(target),
    }


@functools.cache
def machine() -> dict[str, Any]:
    """Computer and software."""
    found = devices()
    gpus = [device for device in found if device.is_gpu]
    cpu = next((device.description for device in found if device.kind == "cpu"), platform.processor())
    return {
        "nsd_local": __version__,
        "build": library.llama_version(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu_info": cpu,
        "cores": psutil.cpu_count(logical=False) or psutil.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "gpu_info": ", ".join(device.description for device in gpus) or None,
        "backends": ", ".join(dict.fromkeys(device.name for device in found)),
    }


def draft_context(engine: Engine) -> Context | None:
    """The memory of the draft model, where one drafts."""
    proposer: Any = engine.decoder.proposer
    for one in (proposer, getattr(proposer, "_model", None)):
        context = getattr(one, "context", None)
        if isinstance(context, Context):
            return context
    return None


def _draft(engine: Engine, described: dict[str, Any]) -> dict[str, Any]:
    proposer = engine.decoder.proposer
    values: dict[str, Any] = {"draft": proposer.name if proposer else None}
    context = draft_context(engine)
    if context is not None:
        values |= _model("draft", context, described.get("draft") or {})
    return values


def _model(role: str, context: Context, described: dict[str, Any]) -> dict[str, Any]:
    model = context.model
    path = Path(model.path)
    return {
        f"{role}_filename": path.name,
        f"{role}_type": model.description,
        f"{role}_size": model.size_bytes,
        f"{role}_sha256": described.get("sha256") or _sha256(path, path.stat().st_mtime_ns),
    }


@functools.cache
def _sha256(path: Path, changed: int) -> str:
    return sha256_of(path, Silent(), path.name)


def _granted(context: Context) -> dict[str, Any]:
    options = context.options
    return {
        "n_ctx": context.n_ctx,
        "n_batch": context.n_batch,
        "n_ubatch": context.plan.n_ubatch,
        "n_threads": context.plan.threads,
        "type_k": options.cache_type_k,
        "type_v": options.cache_type_v,
        "flash_attn": context.plan.flash_attention,
        "n_gpu_layers": str(context.model.choices["gpu layers"].value),
    }
