"""How much memory this process may still take."""

from __future__ import annotations

from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Bytes of main memory that can be taken without swapping: what the system has left, or the container's limit."""
    free = int(psutil.virtual_memory().available)
    limit, used = _read("memory.max"), _read("memory.current")
    if limit is not None and used is not None:
        reclaimable = _stat("inactive_file")
        free = min(free, max(0, limit - used + reclaimable))
    return free


def _read(name: str) -> int | None:
    try:
        text = (_CGROUP / name).read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _stat(key: str) -> int:
    try:
        lines = (_CGROUP / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(key + " ")), 0)


def as_size(n: int) -> str:
    """Bytes for a person: "1,065 MiB", "12.3 GiB"."""
    return f"{n / 2**30:,.1f} GiB" if n >= 10 * 2**30 else f"{n / 2**20:,.0f} MiB"
