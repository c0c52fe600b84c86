"""A model's memory of one text, and the evaluation of what comes next."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsd_local.engine import library
from nsd_local.engine.abort import Abort
from nsd_local.engine.batch import Batch, split
from nsd_local.engine.checkpoints import Checkpoints
from nsd_local.engine.context_plan import plan
from nsd_local.engine.judging import judge
from nsd_local.engine.memory import UNKNOWN, Rewound
from nsd_local.engine.model import Model
from nsd_local.engine.native import create
from nsd_local.engine.options import ContextOptions
from nsd_local.engine.prefill import prefill
from nsd_local.errors import Cancelled, DecodeError

_SPACING = 16  # tokens between checkpoints while single tokens are evaluated
_CODES = {
    1: "the memory has no room for these tokens",
    2: "it was stopped",
    -1: "the batch was refused",
    -2: "there was not enough memory for computing",
    -3: "the computation failed",
}


class Context:
    """One sequence of tokens in a model's memory. Owns its native handle; not thread-safe.

    `tokens` is what the memory holds, always: after an error, too.
    """

    def __init__(self, model: Model, options: ContextOptions | None = None) -> None:
        """Raises ModelError where the context does not fit or the model cannot be evaluated."""
        self.model = model
        self.options = options = options or ContextOptions()
        self.plan = plan(model, options)
        self.n_vocab = model.n_vocab
        self.n_ctx = self.plan.n_ctx
        self.tokens: list[int] = []
        self.rewound = Rewound()
        self._lib = lib = library.load()
        self._handle: Any = create(model, options, self.plan)
        self._free = weakref.finalize(self, lib.llama_free, self._handle)
        self._decode = lib.llama_decode  # the one place that calls it is _evaluate_part
        self._memory = lib.llama_get_memory(self._handle)
        self.n_batch: int = min(options.n_batch, lib.llama_n_batch(self._handle))
        self.max_outputs = min(options.max_outputs, self.n_batch)
        self.snapshots: int = lib.llama_n_rs_seq(self._handle)  # granted
        self._undoable = 0  # tokens that snapshots can take back now
        self._batch = Batch(self.n_batch, max(self.n_ctx, 2))
        self.checkpoints = Checkpoints(self._handle)
        self.memory = UNKNOWN
        model.attach(self)
        try:
            self.memory = judge(self)
        except BaseException:
            self.close()
            raise

    @property
    def choices(self) -> dict[str, Any]:
        """What was chosen automatically, and why."""
        return self.plan.choices

    # Evaluation

    def evaluate(self, tokens: Sequence[int] | NDArray[np.int32], rows: int = 0) -> NDArray[np.float32]:
        """Append `tokens` to the memory.

        Returns the (rows, V) float32 logits after the last `rows` of them: a view that the next call overwrites.
        Raises DecodeError; the memory then holds what it held before, or nothing where it cannot go back.
        """
        n = len(tokens)
        self._check(n, rows)
        self._mark_before(n, rows)
        if n > self.n_batch or rows > self.max_outputs:
            return self._evaluate_parts(tokens, rows)
        if n:
            self._evaluate_part(tokens, rows)
        return self._logits(rows)

    def _check(self, n: int, rows: int) -> None:
        if self._handle is None:
            raise DecodeError("This context is closed")
        if not 0 <= rows <= n:
            raise DecodeError(f"{rows} rows of logits were asked for {n} tokens")
        if len(self.tokens) + n > self.n_ctx:
            raise DecodeError(
                f"{n:,} tokens do not fit", f"the context holds {len(self.tokens):,} of {self.n_ctx:,} tokens"
            )

    def _evaluate_part(self, tokens: Sequence[int] | NDArray[np.int32], rows: int) -> None:
        """One llama_decode. More tokens or rows than the limits would end the process: the callers split."""
        n, start, batch = len(tokens), len(self.tokens), self._batch
        batch.fill(tokens, start, rows)
        low, high = batch.lowest_and_highest()
        if low < 0 or high >= self.n_vocab:
            raise DecodeError(f"Token {low if low < 0 else high} does not exist", f"ids are 0..{self.n_vocab - 1}")
        mark = library.log_mark()
        code = self._decode(self._handle, batch.native)
        if code != 0:
            self._recover(code, start)
            lines = library.log_since(mark, library.ERROR)
            why = _CODES.get(code, "the computation failed")
            raise DecodeError(f"llama.cpp could not evaluate {n:,} tokens (code {code})", " ".join([why, *lines[:1]]))
        self.tokens.extend(tokens if isinstance(tokens, list) else (int(token) for token in tokens))
        self._undoable = min(n - 1, self.snapshots)

    def _evaluate_parts(self, tokens: Sequence[int] | NDArray[np.int32], rows: int) -> NDArray[np.float32]:
        """More than one llama_decode: long texts, or more rows than fit into the output buffer (copied then)."""
        before, filled = len(self.tokens), 0
        gathered = np.empty((rows if rows > self.max_outputs else 0, self.n_vocab), dtype=np.float32)  # (rows, V)
        try:
            for part, wanted in split(len(tokens), rows, self.n_batch, self.max_outputs):
                self._evaluate_part(tokens[part], wanted)
                if len(gathered):
                    gathered[filled : filled + wanted] = self._logits(wanted)
                    filled += wanted
        except DecodeError:
            self._take_back(before)
            raise
        return gathered if len(gathered) else self._logits(rows)

    def _logits(self, rows: int) -> NDArray[np.float32]:
        if not rows:
            return np.empty((0, self.n_vocab), dtype=np.float32)
        pointer = self._lib.llama_get_logits(self._handle)
        return np.ctypeslib.as_array(pointer, (rows, self.n_vocab))

    def evaluate_abortable(self, tokens: Sequence[int], cancelled: Callable[[], bool] | None) -> None:
        """`evaluate` without rows that stops early where `cancelled` says so (on CPUs). Raises Cancelled then."""
        if cancelled is None:
            self.evaluate(tokens)
            return
        with Abort(self._lib, self._handle, cancelled) as abort:
            try:
                self.evaluate(tokens)
            except DecodeError as error:
                if abort.error is not None:
                    raise abort.error from None
                if abort.fired:
                    raise Cancelled("Stopped while reading the prompt") from error
                raise

    def prefill(
        self,
        tokens: Sequence[int],
        progress: Callable[[int, int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> int:
        """Bring the memory to exactly `tokens`, reusing the longest common prefix; returns how many were evaluated.

        `progress(done, total)` is called after each chunk. Raises Cancelled; the memory stays consistent.
        """
        evaluated = 0
        for size in prefill(self, tokens, cancelled=cancelled):
            evaluated += size
            if progress is not None:
                progress(len(self.tokens), len(tokens))
            if cancelled is not None and cancelled():
                raise Cancelled("Stopped while reading the prompt")
        return evaluated

    # Going back

    def rewind(self, n: int) -> None:
        """Afterwards the memory holds exactly the first `n` tokens, whatever that takes (see `rewound`)."""
        if n == len(self.tokens):
            return
        if not 0 <= n < len(self.tokens):
            raise DecodeError(f"The memory holds {len(self.tokens)} tokens and cannot go back to {n}")
        if self._handle is None:
            raise DecodeError("This context is closed")
        if self._remove(n):
            self.rewound.removed += 1
        else:
            self._restore_or_refill(n)

    def _remove(self, n: int) -> bool:
        """Cut off the end natively, where that is right for this memory."""
        if n == 0:
            self._clear()
            return True
        if self.memory.method == "snapshots":
            # llama.cpp's own check is not enough: it also "rolls back" to states of an earlier batch.
            if len(self.tokens) - n > self._undoable:
                return False
        elif self.memory.method != "remove":
            return False
        elif self.memory.max_rollback is not None:
            # A window without all tokens: what the next token attends to must still be there.
            oldest = self._lib.llama_memory_seq_pos_min(self._memory, 0)
            if oldest > max(0, n - self.model.n_window):
                return False
        return self._cut(n)

    def _cut(self, n: int) -> bool:
        """Native removal of everything from position n on; keeps `tokens` in step. False where it did not work."""
        if not self._lib.llama_memory_seq_rm(self._memory, 0, n, -1):
            return False
        if self._lib.llama_memory_seq_pos_max(self._memory, 0) != n - 1:
            return False
        del self.tokens[n:]
        self._undoable = 0  # a snapshot can be taken once before the next evaluation
        self.checkpoints.drop_after(n)
        return True

    def _restore_or_refill(self, n: int) -> None:
        kept = self.tokens[:n]
        restored = self.checkpoints.restore(n) if self.memory.needs_checkpoints else None
        if restored is not None and self._cut(restored):
            self.rewound.restored += 1
        else:
            restored = 0
            self._clear()
            self.rewound.refilled += 1
        self.rewound.evaluated += n - restored
        if n > restored:
            self.evaluate(kept[restored:])

    def mark(self) -> None:
        """Say that the tokens to come may be taken back: memories that need it copy their state here."""
        if self.memory.method in ("snapshots", "checkpoints") and self.tokens:
            self.checkpoints.save(len(self.tokens), anchor=False)

    def anchor(self) -> None:
        """`mark`, to be kept longer: the end of a prompt, where an edited or regenerated turn goes back to."""
        if self.memory.needs_checkpoints and self.memory.method != "none" and self.tokens:
            if self.memory.method == "remove" and self.memory.max_rollback is None:
                return
            self.checkpoints.save(len(self.tokens), anchor=True)

    def _mark_before(self, n: int, rows: int) -> None:
        """A checkpoint before tokens that may be taken back: several at once, or now and then single ones."""
        if not rows or not self.tokens or self.memory.method not in ("snapshots", "checkpoints"):
            return
        speculative = n > 1 and n - 1 > self.snapshots
        if speculative or len(self.tokens) - self.checkpoints.last >= _SPACING:
            self.mark()

    def _recover(self, code: int, start: int) -> None:
        """Bring memory and `tokens` in step after a failed llama_decode that began at `start`."""
        whole = code in (1, -1)  # llama.cpp restored the memory itself
        if whole and self._lib.llama_memory_seq_pos_max(self._memory, 0) == start - 1:
            return
        self._take_back(start)

    def _take_back(self, n: int) -> None:
        """Back to n tokens without evaluating anything; to none where that cannot be."""
        if self.checkpoints.restore(n) == n and self._cut(n):
            return
        if self.memory.method == "remove" and n and self._remove(n):
            return
        self._clear()

    def _clear(self) -> None:
        self._lib.llama_memory_clear(self._memory, False)
        self.tokens.clear()
        self._undoable = 0
        self.checkpoints.drop_after(0)

    def clear(self) -> None:
        """Forget everything."""
        if self._handle is not None:
            self._clear()

    def adopt(self, tokens: Sequence[int]) -> None:
        """Say that the native memory now holds exactly `tokens`: a restored session."""
        self.tokens = list(tokens)
        self._undoable = 0
        self.checkpoints.clear()
        self.anchor()

    # Life

    @property
    def handle(self) -> Any:
        """The native handle. Raises DecodeError after `close`."""
        if self._handle is None:
            raise DecodeError("This context is closed")
        return self._handle

    def close(self) -> None:
        """Free everything native. May be called twice."""
        self.checkpoints.clear()
        self._batch.close()
        self._free()
        self._handle = None

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
