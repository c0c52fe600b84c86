"""A model's memory of one text, and the evaluation of what comes next."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions
from nsd_local.errors import Cancelled, DecodeError, ModelError


class Context:
    """One sequence of tokens in a model's memory. Not thread-safe."""

    def __init__(self, model: Model, options: ContextOptions | None = None) -> None:
        options = options or ContextOptions()
        self.model = model
        self._lib = lib = model._lib
        params = lib.llama_context_default_params()
        params.n_ctx = options.n_ctx or min(model.n_ctx_train, 8192)
        params.n_batch = params.n_ubatch = options.n_batch
        params.n_outputs_max = options.max_outputs
        params.n_seq_max = 1
        if options.threads:
            params.n_threads = params.n_threads_batch = options.threads
        self._handle = lib.llama_init_from_model(model._handle, params)
        if not self._handle:
            raise ModelError(f"no context for {model.path}")
        self._memory = lib.llama_get_memory(self._handle)
        self.n_ctx: int = lib.llama_n_ctx(self._handle)
        self.n_batch: int = lib.llama_n_batch(self._handle)
        self.n_vocab = model.n_vocab
        self.max_outputs = options.max_outputs
        self.tokens: list[int] = []
        self._batch = lib.llama_batch_init(self.n_batch, 0, 1)
        as_array = np.ctypeslib.as_array
        self._token = as_array(self._batch.token, (self.n_batch,))
        self._pos = as_array(self._batch.pos, (self.n_batch,))
        self._logits = as_array(self._batch.logits, (self.n_batch,))
        as_array(self._batch.n_seq_id, (self.n_batch,))[:] = 1
        for i in range(self.n_batch):
            self._batch.seq_id[i][0] = 0

    def evaluate(self, tokens: Sequence[int], rows: int) -> NDArray[np.float32]:
        """Append `tokens`; returns the (rows, V) logits after the last `rows` of them, a view until the next call."""
        n = len(tokens)
        if not 0 <= rows <= min(n, self.max_outputs):
            raise DecodeError(f"{rows} rows of logits asked for {n} tokens, at most {self.max_outputs}")
        if len(self.tokens) + n > self.n_ctx:
            raise DecodeError(f"the context of {self.n_ctx} tokens is full")
        for start in range(0, n, self.n_batch):
            part = tokens[start : start + self.n_batch]
            self._decode(part, max(0, rows - (n - start - len(part))))
        if rows > self.n_batch:
            raise DecodeError("more rows than a batch holds")
        pointer = self._lib.llama_get_logits(self._handle) if rows else None
        if not pointer:
            return np.empty((0, self.n_vocab), dtype=np.float32)
        return np.ctypeslib.as_array(pointer, (rows, self.n_vocab))

    def _decode(self, part: Sequence[int], rows: int) -> None:
        n, start = len(part), len(self.tokens)
        self._token[:n] = part
        self._pos[:n] = np.arange(start, start + n, dtype=np.int32)
        self._logits[:n] = 0
        if rows:
            self._logits[max(0, n - rows) : n] = 1
        self._batch.n_tokens = n
        code = self._lib.llama_decode(self._handle, self._batch)
        if code != 0:
            raise DecodeError(f"llama_decode returned {code}")
        self.tokens.extend(int(t) for t in part)

    def rewind(self, n: int) -> None:
        """Drop everything after the first `n` tokens."""
        if n >= len(self.tokens):
            return
        if not self._lib.llama_memory_seq_rm(self._memory, 0, n, -1):
            kept = self.tokens[:n]
            self._lib.llama_memory_clear(self._memory, True)
            self.tokens = []
            if kept:
                self.evaluate(kept, rows=0)
            return
        del self.tokens[n:]

    def prefill(
        self,
        tokens: Sequence[int],
        progress: Callable[[int, int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> int:
        """Bring the memory to exactly `tokens`; returns how many of them had to be evaluated."""
        common = 0
        for have, want in zip(self.tokens, tokens, strict=False):
            if have != want:
                break
            common += 1
        self.rewind(common)
        total = len(tokens) - common
        for start in range(common, len(tokens), 256):
            if cancelled is not None and cancelled():
                raise Cancelled("stopped while reading the prompt")
            self.evaluate(tokens[start : start + 256], rows=0)
            if progress is not None:
                progress(min(start + 256, len(tokens)) - common, total)
        return total

    def close(self) -> None:
        if self._handle:
            self._lib.llama_free(self._handle)
            self._lib.llama_batch_free(self._batch)
            self._handle = None

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
