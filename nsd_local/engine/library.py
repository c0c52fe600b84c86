"""llama.cpp itself: the one place that imports it. Loaded on first use, its log kept instead of printed."""

from __future__ import annotations

import atexit
import ctypes
import os
import re
import sys
import threading
import weakref
from collections import deque
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from nsd_local.errors import NsdError

ERROR: Final = 4  # GGML_LOG_LEVEL_ERROR; warnings are 3
_DEBUG: Final = 1  # dozens of lines per layer, which would push the telling ones out
_CONTINUE: Final = 5  # GGML_LOG_LEVEL_CONT: goes on with the line before
_LINES: Final = 500


@dataclass(slots=True)
class LogLine:
    number: int  # counts up over the life of the process
    level: int
    text: str


class Closable(Protocol):
    """An owner of native handles."""

    def close(self) -> None: ...


class _Library:
    """What is loaded once per process."""

    binding: Any = None
    ggml: Any = None
    owners: ClassVar[weakref.WeakSet[Closable]] = weakref.WeakSet()
    callback: Any = None  # llama.cpp keeps a bare pointer to it: it must outlive every call
    lock = threading.Lock()
    log: ClassVar[deque[LogLine]] = deque(maxlen=_LINES)
    count = 0


def load() -> Any:
    """The low-level binding `llama_cpp.llama_cpp`, initialised once per process.

    Raises NsdError where it is not installed or cannot be loaded.
    """
    if _Library.binding is None:
        with _Library.lock:
            if _Library.binding is None:
                _Library.binding = _initialise()
    return _Library.binding


def _initialise() -> Any:
    try:
        import llama_cpp._ggml as ggml
        import llama_cpp.llama_cpp as binding
    except (ImportError, OSError, RuntimeError) as error:
        raise NsdError(
            "llama.cpp cannot be loaded", str(error), "Run `nsd-local doctor`: it prints the install line"
        ) from error
    _Library.ggml = ggml
    _Library.callback = binding.llama_log_callback(_on_log)
    binding.llama_log_set(_Library.callback, ctypes.c_void_p(0))
    atexit.register(_leave, binding)
    binding.llama_backend_init()
    return binding


def _leave(binding: Any) -> None:
    """At the end of the process: free what is still open while the log has somewhere to go, then let go of the log."""
    for owner in list(_Library.owners):
        owner.close()
    binding.llama_log_set(binding.llama_log_callback(0), ctypes.c_void_p(0))


def close_at_exit(owner: Closable) -> None:
    """Close `owner` at the end of the process, unless it is gone by then."""
    load()
    _Library.owners.add(owner)


def ggml_function(name: str) -> Any:
    """A function of ggml that the binding does not declare. It lies in one of two libraries, by platform."""
    load()
    try:
        return getattr(_Library.ggml.libggml, name)
    except AttributeError:  # Windows: a library gives only what it exports itself
        from llama_cpp._ctypes_extensions import load_shared_library

        return getattr(load_shared_library("ggml-base", _Library.ggml.libggml_base_path), name)


def _on_log(level: int, text: bytes | None, _user: Any) -> None:
    line = (text or b"").decode("utf-8", "replace")
    log = _Library.log
    if level == _CONTINUE and log:
        log[-1].text += line
    elif level != _DEBUG:
        _Library.count += 1
        log.append(LogLine(_Library.count, level, line))


def log_mark() -> int:
    """Where the log stands now, for `log_since`."""
    return _Library.count


def log_since(mark: int, level: int = 0) -> list[str]:
    """The kept lines after `mark` of at least `level`, oldest first, stripped."""
    lines = list(_Library.log)
    return [line.text.strip() for line in lines if line.number > mark and line.level >= level and line.text.strip()]


def reason_since(mark: int, otherwise: str = "llama.cpp gives no reason") -> str:
    """llama.cpp's first error after `mark`, without the name of the function that tells it."""
    lines = log_since(mark, ERROR)
    return re.sub(r"^\w+: ", "", lines[0]) if lines else otherwise


def is_installed() -> bool:
    return installed_version() is not None


def installed_version() -> str | None:
    """Version of the binding, without importing it."""
    try:
        return metadata.version("llama-cpp-python")
    except metadata.PackageNotFoundError:
        return None


def llama_version() -> str:
    """llama.cpp's own version, with the binding's: "0.5.0 (llama-cpp-python 0.3.36)"."""
    version: bytes = load().llama_version()
    return f"{version.decode()} (llama-cpp-python {installed_version() or 'unknown'})"


def system_info() -> str:
    """The instruction sets and features this build uses."""
    info: bytes = load().llama_print_system_info()
    return info.decode("utf-8", "replace").strip()


def supports_gpu() -> bool:
    return bool(load().llama_supports_gpu_offload())


def encode_path(path: Path) -> bytes:
    """A path as llama.cpp wants it: UTF-8 on Windows, the file system's own bytes elsewhere."""
    return str(path).encode("utf-8") if sys.platform == "win32" else os.fsencode(path)
