"""A model's memory of one text, and the evaluation of what comes next."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsd_local.engine import library
from nsd_local.engine.abort import Abort
from nsd_local.engine.batch import Batch
from nsd_local.engine.checkpoints import Checkpoints
from nsd_local.engine.context_plan import plan
from nsd_local.engine.memory import MemoryVerdict, verdict
from nsd_local.engine.model import Model
from nsd_local.engine.native import create, granted_window
from nsd_local.engine.options import ContextOptions
from nsd_local.engine.prefill import prefill
from nsd_local.errors import Cancelled, DecodeError, ModelError

_SPACING = 16  # tokens between checkpoints while single tokens are evaluated
_CODES = {
    1: "the memory has no room for these tokens",
    2: "it was stopped",
    -1: "the batch was refused",
    -2: "there was not enough memory for computing",
    -3: "the computation failed",
}


@dataclass(slots=True)
class Rewound:
    """How rewinds went so far."""

    removed: int = 0  # by cutting off the end, or to a snapshot
    restored: int = 0  # by a checkpoint
    refilled: int = 0  # by starting over
    evaluated: int = 0  # tokens that restored and refilled rewinds evaluated again


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
        self._snapshots: int = lib.llama_n_rs_seq(self._handle)
        self._undoable = 0  # tokens that snapshots can take back now
        self._batch = Batch(self.n_batch, max(self.n_ctx, 2))
        self._checkpoints = Checkpoints(self._handle)
        model.attach(self)
        try:
            self.memory = self._judge()
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
        self._undoable = min(n - 1, self._snapshots)

    def _evaluate_parts(self, tokens: Sequence[int] | NDArray[np.int32], rows: int) -> NDArray[np.float32]:
        """More than one llama_decode: long texts, or more rows than fit into the output buffer."""
        n, before = len(tokens), len(self.tokens)
        gather = rows > self.max_outputs
        tail = rows if gather else min(n, self.n_batch)
        try:
            for at in range(0, n - tail, self.n_batch):
                self._evaluate_part(tokens[at : min(at + self.n_batch, n - tail)], 0)
            if not gather:
                self._evaluate_part(tokens[n - tail :], rows)
                return self._logits(rows)
            gathered = np.empty((rows, self.n_vocab), dtype=np.float32)  # (rows, V)
            for at in range(0, rows, self.max_outputs):
                part = tokens[n - rows + at : n - rows + min(at + self.max_outputs, rows)]
                self._evaluate_part(part, len(part))
                gathered[at : at + len(part)] = self._logits(len(part))
            return gathered
        except DecodeError:
            self._take_back(before)
            raise

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
        self._checkpoints.drop_after(n)
        return True

    def _restore_or_refill(self, n: int) -> None:
        kept = self.tokens[:n]
        restored = self._checkpoints.restore(n) if self.memory.needs_checkpoints else None
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
            self._checkpoints.save(len(self.tokens), anchor=False)

    def anchor(self) -> None:
        """`mark`, to be kept longer: the end of a prompt, where an edited or regenerated turn goes back to."""
        if self.memory.needs_checkpoints and self.memory.method != "none" and self.tokens:
            if self.memory.method == "remove" and self.memory.max_rollback is None:
                return
            self._checkpoints.save(len(self.tokens), anchor=True)

    def _mark_before(self, n: int, rows: int) -> None:
        """A checkpoint before tokens that may be taken back: several at once, or now and then single ones."""
        if not rows or not self.tokens or self.memory.method not in ("snapshots", "checkpoints"):
            return
        speculative = n > 1 and n - 1 > self._snapshots
        if speculative or len(self.tokens) - self._checkpoints.last >= _SPACING:
            self.mark()

    def _recover(self, code: int, start: int) -> None:
        """Bring memory and `tokens` in step after a failed llama_decode that began at `start`."""
        whole = code in (1, -1)  # llama.cpp restored the memory itself
        if whole and self._lib.llama_memory_seq_pos_max(self._memory, 0) == start - 1:
            return
        self._take_back(start)

    def _take_back(self, n: int) -> None:
        """Back to n tokens without evaluating anything; to none where that cannot be."""
        if self._checkpoints.restore(n) == n and self._cut(n):
            return
        if self.memory.method == "remove" and n and self._remove(n):
            return
        self._clear()

    def _clear(self) -> None:
        self._lib.llama_memory_clear(self._memory, False)
        self.tokens.clear()
        self._undoable = 0
        self._checkpoints.drop_after(0)

    def clear(self) -> None:
        """Forget everything."""
        if self._handle is not None:
            self._clear()

    # Life

    def _judge(self) -> MemoryVerdict:
        """Evaluates two tokens and looks what can be taken back. Also warms the buffers up."""
        self.memory = MemoryVerdict("plain", "none", 0, "not known yet")
        model, plain = self.model, not self._snapshots
        token = max(0, model.vocabulary.bos)
        try:
            self.evaluate([token, token][: self.n_ctx], rows=1)
        except DecodeError as error:
            raise ModelError(f"{model.path} cannot be evaluated", str(error), "Choose another model") from error
        state = self._checkpoints.state_size() if model.is_recurrent or model.is_hybrid or self._snapshots else 0
        removable = (
            plain
            and not (model.is_recurrent or model.is_hybrid)
            and bool(self._lib.llama_memory_seq_rm(self._memory, 0, 1, -1))
        )
        if plain and not removable and not state:
            state = self._checkpoints.state_size()
        self._clear()
        return verdict(
            recurrent=model.is_recurrent,
            hybrid=model.is_hybrid,
            window=model.n_window,
            window_full=self.plan.swa_full,
            window_cells=granted_window(model, self.plan),
            snapshots=self._snapshots,
            removable=removable,
            state=state,
        )

    @property
    def handle(self) -> Any:
        """The native handle. Raises DecodeError after `close`."""
        if self._handle is None:
            raise DecodeError("This context is closed")
        return self._handle

    def close(self) -> None:
        """Free everything native. May be called twice."""
        self._checkpoints.clear()
        self._batch.close()
        self._free()
        self._handle = None

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
