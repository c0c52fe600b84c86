"""Copies of a context's state at earlier tokens, for memories that cannot go back by themselves."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Final

from nsd_local.engine import library

PARTIAL: Final = 1  # LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY: recurrent states and windows, not what can be cut off
_MARKS, _ANCHORS = 2, 8  # copies kept: of the last speculations, of the ends of prompts
_MAX_BYTES = 512 * 2**20


@dataclass(slots=True)
class Checkpoint:
    n: int  # tokens in memory when it was made
    data: Any  # ctypes array of bytes
    anchor: bool

    @property
    def size(self) -> int:
        return len(self.data)


class Checkpoints:
    """The copies of one context, by the number of tokens they hold. A copy stays valid as long as these tokens do."""

    def __init__(self, context: Any) -> None:
        self._context = context  # native handle
        self._kept: list[Checkpoint] = []  # by n, ascending
        self._spare: Any = None

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def size(self) -> int:
        return sum(checkpoint.size for checkpoint in self._kept)

    @property
    def last(self) -> int:
        """Tokens of the newest copy; -1 for none."""
        return self._kept[-1].n if self._kept else -1

    def state_size(self) -> int:
        """Bytes of a copy now."""
        return int(library.load().llama_state_seq_get_size_ext(self._context, 0, PARTIAL))

    def save(self, n: int, *, anchor: bool) -> bool:
        """Copy the state, which holds `n` tokens. An anchor outlives the marks of speculation. False if it fails."""
        for kept in self._kept:
            if kept.n == n:
                kept.anchor = kept.anchor or anchor
                return True
        size = self.state_size()
        if size == 0 or size > _MAX_BYTES:
            return False
        data = self._buffer(size)
        written = library.load().llama_state_seq_get_data_ext(self._context, data, size, 0, PARTIAL)
        if written != size:
            return False
        self._kept.append(Checkpoint(n, data, anchor))
        self._kept.sort(key=lambda checkpoint: checkpoint.n)
        self._thin_out()
        return True

    def restore(self, n: int) -> int | None:
        """Bring the native state back to the newest copy of at most `n` tokens; returns how many it holds.

        None if there is none or llama.cpp refuses it; the native state is then undefined.
        """
        found = [checkpoint for checkpoint in self._kept if 0 < checkpoint.n <= n]
        if not found:
            return None
        checkpoint = found[-1]
        lib = library.load()
        size = checkpoint.size
        if lib.llama_state_seq_set_data_ext(self._context, checkpoint.data, size, 0, PARTIAL) != size:
            self._kept.remove(checkpoint)
            return None
        return checkpoint.n

    def covers(self, n: int) -> bool:
        """Whether `restore(n)` has something to restore."""
        return any(0 < checkpoint.n <= n for checkpoint in self._kept)

    def drop_after(self, n: int) -> None:
        """Forget copies that hold more than `n` tokens: those tokens are gone."""
        self._kept = [checkpoint for checkpoint in self._kept if checkpoint.n <= n]

    def clear(self) -> None:
        self._kept = []
        self._spare = None

    def _thin_out(self) -> None:
        for anchor, most in ((False, _MARKS), (True, _ANCHORS)):
            same = [checkpoint for checkpoint in self._kept if checkpoint.anchor == anchor]
            for checkpoint in same[:-most]:
                self._drop(checkpoint)
        while self.size > _MAX_BYTES and len(self._kept) > 1:
            self._drop(self._kept[0])

    def _drop(self, checkpoint: Checkpoint) -> None:
        self._kept.remove(checkpoint)
        self._spare = checkpoint.data

    def _buffer(self, size: int) -> Any:
        """A byte array, the one dropped last where it fits: a copy per round must not allocate megabytes each time."""
        spare, self._spare = self._spare, None
        if spare is not None and len(spare) == size:
            return spare
        return (ctypes.c_uint8 * size)()
