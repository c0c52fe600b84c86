"""Logits to laws. Knows arrays only. `Shape` and everything compiled load on first use; `Law` and
`Penalties` are cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nsd_local.sampling.law import Law
from nsd_local.sampling.penalties import Penalties

if TYPE_CHECKING:
    from nsd_local.sampling.shape import Scratch, Shape

__all__ = ["Law", "Penalties", "Scratch", "Shape"]


def __getattr__(name: str) -> Any:
    if name in ("Shape", "Scratch"):
        from nsd_local.sampling import shape

        return getattr(shape, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
