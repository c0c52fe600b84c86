"""A grammar that a text must follow, and how far the text has got in it: llama.cpp's own grammar sampler."""

from __future__ import annotations

import ctypes
import weakref
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsd_local.engine import gbnf, library
from nsd_local.engine.model import Model
from nsd_local.errors import DecodeError, UsageError

_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])  # llama_token_data


class _Candidates:
    """The array that llama.cpp is asked about, reused by a grammar and its clones."""

    def __init__(self) -> None:
        self.array = np.zeros(256, _CANDIDATE)

    def filled(self, tokens: NDArray[np.integer[Any]]) -> NDArray[np.void]:
        if len(tokens) > len(self.array):
            self.array = np.zeros(max(len(tokens), 2 * len(self.array)), _CANDIDATE)
        part = self.array[: len(tokens)]
        part["id"] = tokens
        part["logit"] = 0.0
        return part


class Grammar:
    """One place in a grammar. Owns its native sampler; a context manager. Not for two threads at once.

    End-of-generation tokens are allowed where the grammar is complete, and only there. The model must outlive it.
    """

    def __init__(self, model: Model, handle: Any, candidates: _Candidates) -> None:
        self._model, self._handle, self._candidates = model, handle, candidates
        self._lib = lib = library.load()
        self._free = weakref.finalize(self, lib.llama_sampler_free, handle)

    @classmethod
    def compile(cls, model: Model, text: str) -> Grammar:
        """The beginning of the grammar `text` (GBNF, the first rule is `root`). Raises UsageError with the reason."""
        gbnf.check(text, lambda token: len(model.tokenize(token, special=True, add_bos=False)) == 1)
        lib, mark = library.load(), library.log_mark()
        vocabulary = lib.llama_model_get_vocab(model.handle)
        handle = lib.llama_sampler_init_grammar(vocabulary, text.encode(), gbnf.ROOT.encode())
        if not handle:
            why = library.reason_since(mark)
            raise UsageError("The grammar cannot be used", why, "See llama.cpp's grammars/README.md")
        return cls(model, handle, _Candidates())

    def clone(self) -> Grammar:
        """The same place, which goes its own way from here."""
        return Grammar(self._model, self._lib.llama_sampler_clone(self.handle), self._candidates)

    @property
    def handle(self) -> Any:
        """The native handle. Raises DecodeError after `close`."""
        if self._handle is None:
            raise DecodeError("This grammar is closed")
        return self._handle

    def allows(self, tokens: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """(n,) which of these token ids (n,) may come next. The time is in proportion to n: 1 ms for some thousands."""
        lib, n_vocab = self._lib, self._model.n_vocab
        _ = self._model.handle  # llama.cpp looks the texts up in the model, which must still be there
        if len(tokens) == 0:
            return np.zeros(0, dtype=np.bool_)
        if tokens.min() < 0 or tokens.max() >= n_vocab:  # llama.cpp would end the process
            raise DecodeError(f"A token outside the vocabulary of {n_vocab:,} was looked up in a grammar")
        part = self._candidates.filled(tokens)
        data = ctypes.cast(part.ctypes.data, lib.llama_token_data_p)
        lib.llama_sampler_apply(self.handle, ctypes.byref(lib.llama_token_data_array(data, len(tokens), -1, False)))
        allowed: NDArray[np.bool_] = part["logit"] == 0.0
        return allowed

    def accept(self, token: int) -> None:
        """The text goes on with `token`. Raises DecodeError where it may not: the place is then what it was."""
        if not self.allows(np.array([token]))[0]:  # llama.cpp would end the process
            raise DecodeError(f"The grammar does not allow token {token} here")
        self._lib.llama_sampler_accept(self.handle, token)

    def close(self) -> None:
        """May be called twice."""
        if self._handle is not None:
            self._free()
            self._handle = None

    def __enter__(self) -> Grammar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
