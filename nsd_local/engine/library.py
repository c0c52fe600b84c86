"""llama.cpp itself: the one place that imports it. Loaded on first use, its log kept instead of printed."""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from typing import Any

from nsd_local.errors import NsdError

_LOG_LINES = 400
_LEVEL_CONTINUE = 5  # GGML_LOG_LEVEL_CONT: goes on with the line before

_lock = threading.Lock()
_library: Any = None
_callback: Any = None  # llama.cpp keeps a bare pointer to it: it must outlive every call
_log: deque[tuple[int, str]] = deque(maxlen=_LOG_LINES)


def load() -> Any:
    """The low-level binding `llama_cpp.llama_cpp`, initialised once per process."""
    global _library, _callback
    if _library is not None:
        return _library
    with _lock:
        if _library is not None:
            return _library
        try:
            import llama_cpp.llama_cpp as lib
        except (ImportError, OSError, RuntimeError) as error:
            raise NsdError(
                "llama.cpp cannot be loaded", f"{error}", "Run `nsd-local doctor`: it prints the install line"
            ) from error
        _callback = lib.llama_log_callback(_on_log)
        lib.llama_log_set(_callback, ctypes.c_void_p(0))
        lib.llama_backend_init()
        _library = lib
    return _library


def _on_log(level: int, text: bytes | None, _user: Any) -> None:
    line = (text or b"").decode("utf-8", "replace")
    if level == _LEVEL_CONTINUE and _log:
        last_level, last = _log.pop()
        _log.append((last_level, last + line))
    else:
        _log.append((level, line))
