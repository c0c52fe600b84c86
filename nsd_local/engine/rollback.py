"""Going back to an earlier token in any kind of memory, and keeping the list of tokens in step with it."""

from __future__ import annotations

from typing import Any, Final

from nsd_local.engine import library
from nsd_local.engine.checkpoints import Checkpoints
from nsd_local.engine.memory import UNKNOWN, MemoryVerdict, Rewound

_SPACING: Final = 16  # tokens between checkpoints while single tokens are evaluated
_RESTORED_BY_LLAMA: Final = (1, -1)  # codes of llama_decode after which the memory is as before


class Rollback:
    """The way back of one context: its `tokens` (a list shared with it) and the native memory.

    `verdict` says what the memory can do. Everything here leaves `tokens` and memory equal; nothing evaluates.
    """

    def __init__(self, handle: Any, tokens: list[int], window: int) -> None:
        self._lib = library.load()
        self._memory = self._lib.llama_get_memory(handle)
        self._tokens = tokens
        self._window = window  # tokens of the sliding window; 0 for none
        self.snapshots: int = self._lib.llama_n_rs_seq(handle)  # granted
        self.checkpoints = Checkpoints(handle)
        self.verdict: MemoryVerdict = UNKNOWN
        self.rewound = Rewound()
        self._undoable = 0  # tokens that snapshots can take back now
        self._mark_next = False

    def retreat(self, n: int) -> None:
        """Go back to the first `n` tokens, or to as many of them as can be had without evaluating."""
        if n >= len(self._tokens):
            return
        if self._remove(n):
            self.rewound.removed += 1
        elif (restored := self._restore(n)) is not None and self._cut(restored):
            self.rewound.restored += 1
        else:
            self.clear()
            self.rewound.refilled += 1
        self._mark_next = True

    def _remove(self, n: int) -> bool:
        """Cut off the end natively, where that is right for this memory."""
        if n == 0:
            self.clear()
            return True
        if self.verdict.method == "snapshots":
            # llama.cpp's own check is not enough: it also "goes back" to states that an earlier batch left.
            if len(self._tokens) - n > self._undoable:
                return False
        elif self.verdict.method != "remove":
            return False
        elif self.verdict.max_rollback is not None:
            # A window without all tokens: what the next token attends to must still be there.
            oldest = self._lib.llama_memory_seq_pos_min(self._memory, 0)
            if oldest > max(0, n - self._window):
                return False
        return self._cut(n)

    def _restore(self, n: int) -> int | None:
        return self.checkpoints.restore(n) if self.verdict.needs_checkpoints else None

    def _cut(self, n: int) -> bool:
        """Native removal of everything from position n on. False where it did not work."""
        if not self._lib.llama_memory_seq_rm(self._memory, 0, n, -1):
            return False
        if self._lib.llama_memory_seq_pos_max(self._memory, 0) != n - 1:
            return False
        del self._tokens[n:]
        self._undoable = 0  # a snapshot can be taken once before the next evaluation
        self.checkpoints.drop_after(n)
        return True

    def clear(self) -> None:
        self._lib.llama_memory_clear(self._memory, False)
        self._tokens.clear()
        self._undoable = 0
        self.checkpoints.drop_after(0)

    def before(self, n: int, rows: int) -> None:
        """`n` tokens are about to be evaluated. Where some may be taken back, and this memory needs it, copy its state:
        before several at once, after a rewind (a new round begins), and now and then between single tokens.
        """
        if not rows or not self._tokens or self.verdict.method not in ("snapshots", "checkpoints"):
            return
        speculative = n > 1 and n - 1 > self.snapshots
        if speculative or self._mark_next or len(self._tokens) - self.checkpoints.last >= _SPACING:
            self.mark()

    def after(self, n: int) -> None:
        """`n` tokens were evaluated in one batch: snapshots reach back within it."""
        self._undoable = min(n - 1, self.snapshots)

    def mark(self) -> None:
        """Copy the state where this memory needs it: the tokens to come may be taken back."""
        if self.verdict.method in ("snapshots", "checkpoints") and self._tokens:
            self.checkpoints.save(len(self._tokens), anchor=False)
            self._mark_next = False

    def anchor(self) -> None:
        """`mark`, to be kept longer, also for windows: the end of a prompt."""
        if self._tokens and self.verdict.needs_checkpoints:
            self.checkpoints.save(len(self._tokens), anchor=True)

    def recover(self, code: int) -> None:
        """llama_decode failed with `code` after `tokens`: back to them, or to as many as can be had."""
        n = len(self._tokens)
        if code in _RESTORED_BY_LLAMA and self._lib.llama_memory_seq_pos_max(self._memory, 0) == n - 1:
            return
        self.take_back(n)

    def take_back(self, n: int) -> None:
        """`retreat` after a failure: the native memory may hold more than `tokens` says."""
        if n and self.verdict.method == "remove" and self._remove(n):
            return
        restored = self._restore(n)
        if restored is None or not self._cut(restored):
            self.clear()

    def adopt(self, tokens: list[int]) -> None:
        """The native memory was replaced by one that holds `tokens`."""
        self._tokens[:] = tokens
        self._undoable = 0
        self.checkpoints.clear()
        self.anchor()
