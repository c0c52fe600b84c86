"""Making a native context."""

from __future__ import annotations

import ctypes
import math
from typing import Any

from gguf.constants import GGMLQuantizationType

from nsd_local.engine import library
from nsd_local.engine.context_plan import Plan
from nsd_local.engine.held_interrupt import HeldInterrupt
from nsd_local.engine.memory_free import as_size, available_memory
from nsd_local.engine.model import Model
from nsd_local.engine.options import CacheType, ContextOptions
from nsd_local.errors import ModelError


def create(model: Model, options: ContextOptions, plan: Plan) -> Any:
    """The native context, with the model's adapters. Raises ModelError with llama.cpp's reason."""
    lib = library.load()
    params = lib.llama_context_default_params()
    params.n_ctx = plan.n_ctx
    params.n_batch = options.n_batch
    params.n_ubatch = plan.n_ubatch
    params.n_seq_max = 1
    params.n_rs_seq = plan.snapshots
    params.n_outputs_max = min(options.max_outputs, options.n_batch)
    params.n_threads = params.n_threads_batch = plan.threads
    params.type_k, params.type_v = ggml_type(options.cache_type_k), ggml_type(options.cache_type_v)
    params.flash_attn_type = -1 if plan.flash_attention is None else int(plan.flash_attention)
    params.swa_full = plan.swa_full
    params.offload_kqv = options.offload_cache
    params.no_perf = True
    mark = library.log_mark()
    with HeldInterrupt() as interrupt:
        handle = lib.llama_init_from_model(model.handle, params)
    if not handle:
        raise interrupt.error or ModelError(
            f"A context of {plan.n_ctx:,} tokens for {model.path.name} could not be made",
            f"{library.reason_since(mark)}; about {as_size(plan.cache_bytes)} are needed, "
            f"{as_size(available_memory())} are free",
            "Try a smaller --ctx, or f16 for the cache",
        )
    try:
        if interrupt.error is not None:
            raise interrupt.error
        if not lib.llama_get_memory(handle):
            raise ModelError(f"{model.path} keeps no memory of a text", "it is not a generating model")
        _attach_adapters(model, handle)
    except BaseException:
        lib.llama_free(handle)
        raise
    return handle


def ggml_type(name: CacheType) -> int:
    return int(GGMLQuantizationType[name.upper()])


def granted_window(model: Model, plan: Plan) -> int:
    """Cells of the sliding-window cache, as llama.cpp computes them."""
    wanted = min(plan.n_ctx, model.n_window + plan.n_ubatch)
    return math.ceil(wanted / 256) * 256


def _attach_adapters(model: Model, handle: Any) -> None:
    lib, n = library.load(), len(model.adapters)
    if not n:
        return
    adapters = (lib.llama_adapter_lora_p_ctypes * n)(*(adapter for adapter, _ in model.adapters))
    scales = (ctypes.c_float * n)(*(scale for _, scale in model.adapters))
    if lib.llama_set_adapters_lora(handle, adapters, n, scales) != 0:
        raise ModelError(f"The LoRA adapters of {model.path} could not be applied")
