"""The native batch: what one call of llama_decode is given."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsd_local.engine import library
from nsd_local.errors import DecodeError

_LARGEST = 2**31 - 1


class Batch:
    """One batch, filled anew for each call through numpy views of its arrays."""

    def __init__(self, capacity: int, n_ctx: int) -> None:
        lib = library.load()
        self.capacity = capacity
        self.native = lib.llama_batch_init(capacity, 0, 1)
        self._free = weakref.finalize(self, lib.llama_batch_free, self.native)
        as_array, shape = np.ctypeslib.as_array, (capacity,)
        self._token: NDArray[np.int32] = as_array(self.native.token, shape)
        self._pos: NDArray[np.int32] = as_array(self.native.pos, shape)
        self._wanted: NDArray[np.int8] = as_array(self.native.logits, shape)
        self._positions = np.arange(n_ctx, dtype=np.int32)
        as_array(self.native.n_seq_id, shape)[:] = 1
        for i in range(capacity):
            self.native.seq_id[i][0] = 0

    def fill(self, tokens: Sequence[int] | NDArray[np.int32], start: int, rows: int) -> None:
        """`tokens` at positions from `start` on, with logits for the last `rows` of them.

        Raises DecodeError for what is no id that llama.cpp can be given; of its vocabulary `outside` knows.
        """
        n = len(tokens)
        self._token[:n] = ids_of(tokens)
        self._pos[:n] = self._positions[start : start + n]
        self._wanted[: n - rows] = 0
        self._wanted[n - rows : n] = 1
        self.native.n_tokens = n

    def outside(self, n_vocab: int) -> int | None:
        """A token id in the batch that the vocabulary does not have."""
        used = self._token[: self.native.n_tokens]
        if used.view(np.uint32).max() < n_vocab:  # negative ids are huge here
            return None
        return int(used[(used < 0) | (used >= n_vocab)][0])

    def close(self) -> None:
        self._free()


def ids_of(tokens: Sequence[int] | NDArray[Any]) -> NDArray[Any]:
    """Token ids (n,) of an integer dtype, all within int32. Raises DecodeError for numbers that are none."""
    try:
        ids: NDArray[Any] = np.asarray(tokens)
    except (ValueError, OverflowError):  # lists in a list
        ids = np.empty(0, dtype=object)
    if ids.dtype.kind not in "iu" or ids.ndim != 1:
        raise DecodeError("What was to be evaluated are not token ids", "an id is a whole number of at most 31 bits")
    if ids.dtype.itemsize >= 4 and ids.dtype != np.int32:
        strangers = ids[(ids < 0) | (ids > _LARGEST)]
        if len(strangers):
            raise DecodeError(f"Token {strangers[0]} does not exist", "ids are 0 or more and have at most 31 bits")
    return ids


def split(n: int, rows: int, capacity: int, max_outputs: int) -> Iterator[tuple[slice, int]]:
    """Cuts `n` tokens, logits wanted for the last `rows`, into calls: (which tokens, rows of logits among them).

    The rows come from one call where they fit into `max_outputs`, from several otherwise.
    """
    tail = rows if rows > max_outputs else min(n, capacity)
    for at in range(0, n - tail, capacity):
        yield slice(at, min(at + capacity, n - tail)), 0
    if rows <= max_outputs:
        yield slice(n - tail, n), rows
        return
    for at in range(n - rows, n, max_outputs):
        end = min(at + max_outputs, n)
        yield slice(at, end), end - at
