"""How a model is loaded and how a context is made."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from nsd_local import checks
from nsd_local.errors import UsageError

LoadMode = Literal["auto", "none", "mmap", "mlock", "mmap+mlock", "direct"]
CacheType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]
_MOST_THREADS = 512  # GGML_MAX_N_THREADS
Progress = Callable[[float], None]  # share done, 0..1


@dataclass(frozen=True, slots=True)
class Lora:
    """An adapter and how strongly it acts."""

    path: Path
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How a model is loaded. None and "auto" are chosen at load; `Model.choices` says what and why."""

    gpu_layers: int | None = None  # negative: all
    device: str | None = None  # a name that `devices()` lists, e.g. "CUDA0"; "none" for the CPU alone
    load_mode: LoadMode = "auto"
    repack: bool = True  # copy weights into the layout that computes fastest on this CPU
    lora: tuple[Lora, ...] = ()
    progress: Progress | None = field(default=None, compare=False)  # may raise to stop loading

    def __post_init__(self) -> None:
        if self.load_mode not in get_args(LoadMode):
            raise UsageError(f"load mode must be one of {', '.join(get_args(LoadMode))}, not {self.load_mode}")


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """How a context is made. None is chosen at creation; `Context.choices` says what and why."""

    n_ctx: int | None = None  # tokens
    n_batch: int = 512  # tokens per call of llama_decode
    n_ubatch: int | None = None  # tokens evaluated at once; memory for computing grows with it
    max_outputs: int = 33  # rows of logits one llama_decode may give; more are gathered from several
    cache_type_k: CacheType = "f16"
    cache_type_v: CacheType = "f16"
    flash_attention: bool | None = None
    threads: int | None = None
    swa_full: bool | None = None  # keep all tokens of sliding-window layers
    snapshots: int | None = None  # states kept for rollback where the architecture can; 0 none
    offload_cache: bool = True  # keep the cache on the GPU where layers are there

    def __post_init__(self) -> None:
        for name in ("n_ctx", "n_ubatch"):
            checks.whole(self, name, 1, optional=True)
        object.__setattr__(self, "threads", checked_threads(self.threads))
        if self.n_ctx is not None and self.n_ctx > 2**31 - 256:
            raise UsageError(f"a context of {self.n_ctx:,} tokens is beyond what llama.cpp can count")
        for name in ("n_batch", "max_outputs"):
            checks.whole(self, name, 1)
        checks.whole(self, "snapshots", 0, 64, optional=True)
        for type_ in (self.cache_type_k, self.cache_type_v):
            if type_ not in get_args(CacheType):
                raise UsageError(f"cache type must be one of {', '.join(get_args(CacheType))}, not {type_}")


def checked_threads(threads: int | None) -> int | None:
    """The number, or None for an automatic one. Raises UsageError for more than this machine can make use of:
    llama.cpp ends the process where the system does not give it its threads."""
    if threads is None:
        return None
    cores = os.cpu_count() or 1
    most = min(4 * cores, _MOST_THREADS)
    count = checks.as_whole("threads", threads, 1)
    if count > most:
        raise UsageError(
            f"{checks.shown(count)} threads are too many", f"this machine has {cores} cores", f"Give at most {most}"
        )
    return count


@dataclass(frozen=True, slots=True)
class Choice:
    """A value that was chosen, and why: "8192 (model limit 32,768, memory for 40,000)"."""

    value: str
    reason: str

    def __str__(self) -> str:
        return f"{self.value} ({self.reason})" if self.reason else self.value
