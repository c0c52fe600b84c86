"""The rules that decide which drafted tokens are kept, and what that costs. Knows arrays only.

Usable without llama.cpp. The rules and `Verdict` are cheap to import; `verify_block`, `Verifier` and
`warm_up` load
the compiled kernels on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nsd_local.verification.rule import Exact, Match, Nucleus, Rule
from nsd_local.verification.verdict import KINDS, Kind, Verdict

if TYPE_CHECKING:
    from nsd_local.verification.verifier import Verifier, verify_block
    from nsd_local.verification.warming import warm_up

__all__ = ["KINDS", "Exact", "Kind", "Match", "Nucleus", "Rule", "Verdict", "Verifier", "verify_block", "warm_up"]


def __getattr__(name: str) -> Any:
    if name in ("Verifier", "verify_block"):
        from nsd_local.verification import verifier

        return getattr(verifier, name)
    if name == "warm_up":
        from nsd_local.verification import warming

        return warming.warm_up
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
