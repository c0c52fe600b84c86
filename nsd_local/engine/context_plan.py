"""What a context will be: its length, buffers and threads, each chosen with a reason."""

from __future__ import annotations

import ctypes
import os
import platform
from dataclasses import dataclass, field
from typing import Final

import psutil

from nsd_local.engine import estimate
from nsd_local.engine.devices import gpus
from nsd_local.engine.memory_free import as_size, available_memory
from nsd_local.engine.model import Model
from nsd_local.engine.options import Choice, ContextOptions
from nsd_local.errors import ModelError, UsageError

DEFAULT_CONTEXT: Final = 8192
_AUTO_SHARE = 0.5  # of the free memory, for a cache whose size nobody asked for
_WINDOW_SHARE = 0.1  # of the free memory, for keeping all tokens of sliding-window layers
_WINDOW_MOST = 512 * 2**20
_SNAPSHOTS = 16
_SMALL = 16 * 2**20  # bytes of weights
_SCORES = 32 * 2**20  # bytes of attention scores above which fewer tokens are evaluated at once
_QUANTIZED = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")


@dataclass(slots=True)
class Plan:
    """The granted settings of a context, and `choices`: what was chosen and why."""

    n_ctx: int
    n_ubatch: int
    threads: int
    flash_attention: bool | None  # None lets llama.cpp decide
    swa_full: bool
    snapshots: int
    cache_bytes: int
    choices: dict[str, Choice] = field(default_factory=dict)


def plan(model: Model, options: ContextOptions) -> Plan:
    """Decide. Raises ModelError where the cache cannot fit, with a suggestion; UsageError for settings at odds."""
    on_gpu = model.gpu_layers > 0
    flash, flash_why = _flash_attention(options, on_gpu)
    free = sum(device.free for device in gpus()) if on_gpu and options.offload_cache else available_memory()
    n_ctx, n_ctx_why = _n_ctx(model, options, free)
    n_ubatch, n_ubatch_why = _n_ubatch(model, options, n_ctx, on_gpu or flash is not False)
    snapshots, snapshots_why = _snapshots(model, options, free)
    swa_full, swa_why = _swa_full(model, options, n_ctx, n_ubatch, free)
    needed = estimate.cache_bytes(
        model.file,
        n_ctx,
        type_k=options.cache_type_k,
        type_v=options.cache_type_v,
        swa_full=swa_full,
        n_ubatch=n_ubatch,
        snapshots=snapshots,
    )
    _check_fits(model, options, n_ctx, needed, free)
    threads, threads_why = _threads(model, options)
    choices = {
        "ctx": Choice(f"{n_ctx:,}", n_ctx_why),
        "cache": Choice(as_size(needed), f"keys {options.cache_type_k}, values {options.cache_type_v}"),
        "flash attention": Choice({True: "on", False: "off", None: "auto"}[flash], flash_why),
        "batch": Choice(str(n_ubatch), n_ubatch_why),
        "threads": Choice(str(threads), threads_why),
    }
    if model.n_window:
        choices["window"] = Choice("full" if swa_full else f"{model.n_window:,}", swa_why)
    if model.is_recurrent or model.is_hybrid:
        choices["snapshots"] = Choice(str(snapshots), snapshots_why)
    return Plan(n_ctx, n_ubatch, threads, flash, swa_full, snapshots, needed, choices)


def _n_ctx(model: Model, options: ContextOptions, free: int) -> tuple[int, str]:
    limit = model.n_ctx_train or DEFAULT_CONTEXT
    if options.n_ctx is not None:
        beyond = f"; beyond the model's {limit:,}, where answers get worse" if options.n_ctx > limit else ""
        return options.n_ctx, f"as asked{beyond}"
    fits = estimate.longest_context(model.file, int(_AUTO_SHARE * free), options.cache_type_k, options.cache_type_v)
    n_ctx = min(limit, DEFAULT_CONTEXT, max(fits, 256))
    memory = "memory for any" if fits > limit else f"memory for {fits:,}"
    return n_ctx, f"model limit {limit:,}, {memory}, default at most {DEFAULT_CONTEXT:,}"


def _check_fits(model: Model, options: ContextOptions, n_ctx: int, needed: int, free: int) -> None:
    if needed <= free:
        return
    fits = estimate.longest_context(model.file, int(0.8 * free), options.cache_type_k, options.cache_type_v)
    fits = min(fits, model.n_ctx_train or fits)
    suggestion = f"Try --ctx {fits}" if fits >= 256 else "Close other programs, or choose a smaller model"
    if options.cache_type_k == "f16" and fits >= 256:
        suggestion += ", or --cache-type-k q8_0 --cache-type-v q8_0, which takes about half"
    raise ModelError(
        f"A context of {n_ctx:,} tokens needs about {as_size(needed)} for its cache with {model.path.name}",
        f"{as_size(free)} of memory are free",
        suggestion,
    )


def _flash_attention(options: ContextOptions, on_gpu: bool) -> tuple[bool | None, str]:
    quantized = options.cache_type_v in _QUANTIZED
    if options.flash_attention is False and quantized:
        raise UsageError(
            f"A cache of type {options.cache_type_v} for values needs flash attention", do="Leave it on, or use f16"
        )
    if options.flash_attention is not None:
        return options.flash_attention, "as asked"
    if quantized:
        return True, "values of the cache are quantized"
    if on_gpu:
        return None, "on where the GPU has it"
    return False, "slower and less exact than plain attention on a CPU"


def _n_ubatch(model: Model, options: ContextOptions, n_ctx: int, no_scores: bool) -> tuple[int, str]:
    """Tokens evaluated at once. A CPU is no faster beyond about a hundred, and plain attention needs memory for the
    scores of all of them."""
    if options.n_ubatch is not None:
        return min(options.n_ubatch, options.n_batch), "as asked"
    if no_scores:
        return min(512, options.n_batch), "flash attention needs no memory for scores"
    n_ubatch = 128
    if estimate.score_bytes(model.file, n_ctx, n_ubatch) > _SCORES:
        n_ubatch = 64
    scores = as_size(estimate.score_bytes(model.file, n_ctx, n_ubatch))
    return min(n_ubatch, options.n_batch), f"attention scores take {scores}"


def _swa_full(model: Model, options: ContextOptions, n_ctx: int, n_ubatch: int, free: int) -> tuple[bool, str]:
    """Keeping all tokens makes edits of earlier turns cheap; a window alone must read the text again for them."""
    if not model.n_window:
        return True, ""
    sizes = [
        estimate.cache_bytes(
            model.file,
            n_ctx,
            type_k=options.cache_type_k,
            type_v=options.cache_type_v,
            swa_full=full,
            n_ubatch=n_ubatch,
        )
        for full in (True, False)
    ]
    extra = as_size(sizes[0] - sizes[1])
    if options.swa_full is not None:
        return options.swa_full, f"as asked; all tokens take {extra} more"
    if sizes[0] - sizes[1] <= min(_WINDOW_MOST, _WINDOW_SHARE * free):
        return True, f"{extra} more than a window of {model.n_window:,}, and any token can be taken back"
    return False, f"keeping all tokens would take {extra} more; an edit of an earlier turn reads the text again"


def _snapshots(model: Model, options: ContextOptions, free: int) -> tuple[int, str]:
    if options.snapshots is not None:
        return options.snapshots, "as asked"
    state = estimate.state_bytes(model.file)
    if not (model.is_recurrent or model.is_hybrid) or not state:
        # Architectures with other memories of this kind: llama.cpp grants 0 where it has none.
        return (_SNAPSHOTS if model.architecture == "deepseek4" else 0), ""
    fits = int(0.1 * free / state) - 1
    n = max(0, min(_SNAPSHOTS, fits))
    return n, f"states of {state / 2**20:,.1f} MiB each"


def _threads(model: Model, options: ContextOptions) -> tuple[int, str]:
    if options.threads is not None:
        return options.threads, "as asked"
    if model.size_bytes < _SMALL:
        return 1, "so small a model is faster without waiting for other threads"
    if fast := _performance_cores():
        return fast, "performance cores"
    physical = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else physical
    if allowed < physical:
        return allowed, f"this process may use {allowed} of {physical} cores"
    return physical, "physical cores"


def _performance_cores() -> int:
    """Fast cores of an Apple chip, whose slow ones would hold the others up; 0 elsewhere."""
    if platform.system() != "Darwin":
        return 0
    cores, size = ctypes.c_int(0), ctypes.c_size_t(ctypes.sizeof(ctypes.c_int))
    name = b"hw.perflevel0.physicalcpu"
    failed = ctypes.CDLL(None).sysctlbyname(name, ctypes.byref(cores), ctypes.byref(size), None, ctypes.c_size_t(0))
    return 0 if failed else cores.value
