"""How a model is loaded and how a context is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from nsd_local.errors import UsageError

LoadMode = Literal["auto", "none", "mmap", "mlock", "mmap+mlock", "direct"]
CacheType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]
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
        for name in ("n_ctx", "n_ubatch", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name.replace('_', '-')} must be 1 or more, not {value}")
        if self.n_ctx is not None and self.n_ctx > 2**31 - 256:
            raise UsageError(f"a context of {self.n_ctx:,} tokens is beyond what llama.cpp can count")
        if self.n_batch < 1 or self.max_outputs < 1:
            raise UsageError("n-batch and max-outputs must be 1 or more")
        if self.snapshots is not None and not 0 <= self.snapshots <= 64:
            raise UsageError(f"snapshots must lie in 0..64, not {self.snapshots}")
        for type_ in (self.cache_type_k, self.cache_type_v):
            if type_ not in get_args(CacheType):
                raise UsageError(f"cache type must be one of {', '.join(get_args(CacheType))}, not {type_}")


@dataclass(frozen=True, slots=True)
class Choice:
    """A value that was chosen, and why: "8192 (model limit 32,768, memory for 40,000)"."""

    value: str
    reason: str

    def __str__(self) -> str:
        return f"{self.value} ({self.reason})" if self.reason else self.value
