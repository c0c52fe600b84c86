"""A model's memory of one text, and the evaluation of what comes next."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsd_local.engine import library
from nsd_local.engine.abort import Abort
from nsd_local.engine.batch import Batch, split
from nsd_local.engine.context_plan import plan
from nsd_local.engine.judging import judge
from nsd_local.engine.memory import MemoryVerdict, Rewound
from nsd_local.engine.model import Model
from nsd_local.engine.native import create
from nsd_local.engine.options import ContextOptions
from nsd_local.engine.prefill import prefill
from nsd_local.engine.rollback import Rollback
from nsd_local.errors import Cancelled, DecodeError

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
        self._lib = lib = library.load()
        self._handle: Any = create(model, options, self.plan)
        self._free = weakref.finalize(self, lib.llama_free, self._handle)
        self._decode = lib.llama_decode  # the one place that calls it is _evaluate_part
        self.n_batch: int = min(options.n_batch, lib.llama_n_batch(self._handle))
        self.max_outputs = min(options.max_outputs, self.n_batch)
        self._batch = Batch(self.n_batch, max(self.n_ctx, 2))
        self.rollback = Rollback(self._handle, self.tokens, model.n_window)
        self._busy = False  # memory and `tokens` are being changed
        self._views: dict[tuple[int, int], NDArray[np.float32]] = {}  # by address and rows
        model.attach(self)
        try:
            self.rollback.verdict = judge(self)
        except BaseException:
            self.close()
            raise

    @property
    def memory(self) -> MemoryVerdict:
        """What this memory allows."""
        return self.rollback.verdict

    @property
    def rewound(self) -> Rewound:
        """How rewinds went so far."""
        return self.rollback.rewound

    @property
    def choices(self) -> dict[str, Any]:
        """What was chosen automatically, and why."""
        return self.plan.choices

    # Evaluation

    def evaluate(self, tokens: Sequence[int] | NDArray[np.int32], rows: int = 0) -> NDArray[np.float32]:
        """Append `tokens` to the memory.

        Returns the (rows, V) float32 logits after the last `rows` of them: a view that the next call overwrites.
        Raises DecodeError; the memory then holds what it held before, or fewer tokens where it cannot go back.
        """
        n = len(tokens)
        self._check(n, rows)
        self.rollback.before(n, rows)
        if n > self.n_batch or rows > self.max_outputs:
            return self._evaluate_parts(tokens, rows)
        if n:
            self._evaluate_part(tokens, rows)
        return self._logits(rows)

    def _check(self, n: int, rows: int) -> None:
        self._check_usable()
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
        if (stranger := batch.outside(self.n_vocab)) is not None:
            raise DecodeError(f"Token {stranger} does not exist", f"ids are 0..{self.n_vocab - 1}")
        mark = library.log_mark()
        self._busy = True
        code = self._decode(self._handle, batch.native)
        if code == 0:
            self.tokens.extend(tokens if isinstance(tokens, list) else (int(token) for token in tokens))
            self.rollback.after(n)
        else:
            self.rollback.recover(code)
        self._busy = False
        if code != 0:
            why = f"{_CODES.get(code, 'the computation failed')} {library.reason_since(mark, '')}".strip()
            raise DecodeError(f"llama.cpp could not evaluate {n:,} tokens (code {code})", why)

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
            self.rollback.take_back(min(before, len(self.tokens)))
            raise
        return gathered if len(gathered) else self._logits(rows)

    def _logits(self, rows: int) -> NDArray[np.float32]:
        if not rows:
            return np.empty((0, self.n_vocab), dtype=np.float32)
        pointer = self._lib.llama_get_logits(self._handle)  # waits for the computation
        key = ctypes.addressof(pointer.contents), rows
        view = self._views.get(key)
        if view is None:  # the buffer moved, or another number of rows
            view = self._views[key] = np.ctypeslib.as_array(pointer, (rows, self.n_vocab))
        return view

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
        if not 0 <= n <= len(self.tokens):
            raise DecodeError(f"The memory holds {len(self.tokens)} tokens and cannot go back to {n}")
        if n == len(self.tokens) and not self._busy:
            return
        kept = self.tokens[:n]
        self.retreat(n)
        if len(self.tokens) < n:
            self.rewound.evaluated += n - len(self.tokens)
            self.evaluate(kept[len(self.tokens) :])

    def retreat(self, n: int) -> None:
        """Go back to the first `n` tokens, or to as many of them as can be had without evaluating."""
        self.settle()
        self._check_usable()
        self._busy = True
        self.rollback.retreat(n)
        self._busy = False

    def mark(self) -> None:
        """Say that the tokens to come may be taken back: memories that need it copy their state here."""
        self._check_usable()
        self.rollback.mark()

    def anchor(self) -> None:
        """`mark`, to be kept longer: the end of a prompt, where an edited or regenerated turn goes back to."""
        self._check_usable()
        self.rollback.anchor()

    def settle(self) -> None:
        """After an exception from outside (KeyboardInterrupt) in the middle of a change: forget everything, as nobody
        knows what the memory holds. Otherwise nothing happens.
        """
        if self._busy and self._handle is not None:
            self.rollback.clear()
            self._busy = False

    def clear(self) -> None:
        """Forget everything."""
        if self._handle is not None:
            self.rollback.clear()
            self._busy = False

    def adopt(self, tokens: Sequence[int]) -> None:
        """Say that the native memory now holds exactly `tokens`: a restored session."""
        self.rollback.adopt(list(tokens))

    def _check_usable(self) -> None:
        if self._handle is None:
            raise DecodeError("This context is closed")
        if self._busy:
            raise DecodeError("An evaluation was interrupted", "the memory is in an unknown state", "Prefill again")

    # Life

    @property
    def handle(self) -> Any:
        """The native handle. Raises DecodeError after `close`."""
        if self._handle is None:
            raise DecodeError("This context is closed")
        return self._handle

    def close(self) -> None:
        """Free everything native. May be called twice."""
        self.rollback.checkpoints.clear()
        self._batch.close()
        self._free()
        self._handle = None

    def __enter__(self) -> Context:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
