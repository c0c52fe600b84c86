"""How every kernel is compiled: one decorator, and one folder where machine code is kept between runs.

Importing this module imports numba, so only kernels do.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import platformdirs

PACKAGE = Path(__file__).parents[1]


def _fingerprint() -> str:
    """A name that changes with any kernel: numba's own check does not see a change in a called function."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for source in sorted(PACKAGE.glob("*/kernels/*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _choose_cache() -> bool:
    """Points numba at a per-user folder unless the user chose one; False where nothing can be written."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return _writable(Path(chosen))
    folder = platformdirs.user_cache_path("nsd-local") / "kernels" / _fingerprint()
    if not _writable(folder):
        return False
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    return True


CACHED = _choose_cache()

import numba  # noqa: E402  (its cache folder is read from the environment at import)

if CACHED:
    numba.config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"]  # for a numba that somebody imported before us

JIT_DISABLED = bool(numba.config.DISABLE_JIT)

# Logits may be -inf, so numba's fastmath=True (which assumes no infinities and no NaN) would be wrong.
_FASTMATH = {"nsz", "arcp", "contract", "afn", "reassoc"}

F = TypeVar("F", bound=Callable[..., object])


def njit(function: F) -> F:
    """Compile a kernel: releases the GIL, kept on disk, never parallel (that would abort under a web
    server).
    """
    return numba.njit(cache=CACHED, nogil=True, fastmath=_FASTMATH)(function)  # type: ignore[no-any-return]
