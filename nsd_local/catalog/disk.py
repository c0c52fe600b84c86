"""Is there room for a download? Asked before its first byte. And why a file cannot be read, in words."""

from __future__ import annotations

import shutil
from pathlib import Path

from nsd_local.catalog.home import HOME_VARIABLE
from nsd_local.errors import DownloadError, UsageError

RESERVE = 256 * 1024 * 1024  # bytes left to the rest of the machine


def free_bytes(folder: Path) -> int:
    """Free space of the disk that `folder` is or will be on."""
    existing = folder
    while not existing.exists():
        existing = existing.parent
    return shutil.disk_usage(existing).free


def check_room(folder: Path, need: int, what: str) -> None:
    """Raise `DownloadError` unless `need` bytes and a reserve are free in `folder`."""
    free = free_bytes(folder)
    if free < need + RESERVE:
        raise DownloadError(
            f"Not enough disk space for {what}",
            f"It needs {need / 1e9:.2f} GB in {folder} and {RESERVE / 1e9:.2f} GB must stay free; "
            f"there are {free / 1e9:.2f} GB",
            f"Free some space, or set {HOME_VARIABLE} to a folder on a larger disk",
        )


def why(error: Exception) -> str:
    """The reason that an error gives, without `[Errno 2]` and without the path, which the sentence before has named."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def unreadable(path: Path, error: OSError | ValueError, do: str = "") -> UsageError:
    """The error to raise for a file of the user that could not be read as text."""
    if isinstance(error, FileNotFoundError):
        return UsageError(f"There is no file {path}", "", do)
    reason = "it is not text in UTF-8" if isinstance(error, UnicodeDecodeError) else why(error)
    return UsageError(f"{path} cannot be read", reason, do)
