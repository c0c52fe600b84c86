"""SHA-256 of large files."""

from __future__ import annotations

import hashlib
from pathlib import Path

from nsd_local.catalog.reporter import Reporter

BLOCK = 1 << 20


def sha256_of(path: Path, reporter: Reporter, what: str) -> str:
    """The file's SHA-256 in hexadecimal, telling the progress under the name `what`."""
    digest = hashlib.sha256()
    total = path.stat().st_size
    done = 0
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
            done += len(block)
            if done % (32 * BLOCK) == 0:
                reporter.progress(what, done, total)
    reporter.progress(what, total, total)
    return digest.hexdigest()
