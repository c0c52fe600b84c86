"""nsd-local: faster local inference of GGUF models with Nucleus Speculative Decoding.

    import nsd_local
    with nsd_local.load() as engine:
        print(engine.generate("Say hello.").text)

The names below load on first use: importing the package costs nothing and needs neither llama.cpp nor numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_WHERE = {
    "Engine": "nsd_local.api",
    "load": "nsd_local.api",
    "Settings": "nsd_local.decoding.settings",
    "Result": "nsd_local.decoding.records",
    "Summary": "nsd_local.decoding.summary",
    "Law": "nsd_local.sampling.law",
    "Exact": "nsd_local.verification.rule",
    "Nucleus": "nsd_local.verification.rule",
    "Message": "nsd_local.chat.message",
    "Conversation": "nsd_local.chat.conversation",
    "NsdError": "nsd_local.errors",
}
__all__ = [
    "Conversation",
    "Engine",
    "Exact",
    "Law",
    "Message",
    "NsdError",
    "Nucleus",
    "Result",
    "Settings",
    "Summary",
    "__version__",
    "load",
]

if TYPE_CHECKING:
    from nsd_local.api import Engine, load
    from nsd_local.chat.conversation import Conversation
    from nsd_local.chat.message import Message
    from nsd_local.decoding.records import Result
    from nsd_local.decoding.settings import Settings
    from nsd_local.decoding.summary import Summary
    from nsd_local.errors import NsdError
    from nsd_local.sampling.law import Law
    from nsd_local.verification.rule import Exact, Nucleus


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
