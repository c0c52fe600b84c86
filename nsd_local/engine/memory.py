"""What rollback a model's memory allows: decided when its context is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["plain", "window", "recurrent", "hybrid"]
Method = Literal["remove", "snapshots", "checkpoints", "none"]


@dataclass(frozen=True, slots=True)
class MemoryVerdict:
    """How a context goes back to an earlier token.

    `method` is what a rewind within a round uses: "remove" cuts off the end; "snapshots" goes back to a state that
    llama.cpp keeps of each of the last tokens of a batch; "checkpoints" restores a copy made earlier and evaluates
    what was kept again; "none" means that only starting over helps, and drafting is off.
    """

    kind: Kind
    method: Method
    max_rollback: int | None  # tokens that one round may take back; None for any number
    reason: str  # for a person, one line

    @property
    def rollback(self) -> bool:
        """Whether drafting is possible."""
        return self.method != "none"

    @property
    def needs_checkpoints(self) -> bool:
        """Whether going back far needs a copy of the state: in all memories that cannot be cut off anywhere."""
        return self.method in ("snapshots", "checkpoints") or (
            self.method == "remove" and self.max_rollback is not None
        )

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


@dataclass(slots=True)
class Rewound:
    """How rewinds went so far."""

    removed: int = 0  # by cutting off the end, or to a snapshot
    restored: int = 0  # by a checkpoint
    refilled: int = 0  # by starting over
    evaluated: int = 0  # tokens evaluated again after these


UNKNOWN = MemoryVerdict("plain", "none", 0, "not known yet")


def verdict(
    *,
    recurrent: bool,
    hybrid: bool,
    window: int,
    window_full: bool,
    window_cells: int,
    snapshots: int,
    removable: bool,
    state: int,
) -> MemoryVerdict:
    """The verdict for a context.

    `window` is the model's sliding window (0 for none), `window_full` whether all tokens are kept for it,
    `window_cells` how many otherwise; `snapshots` what llama.cpp granted; `removable` whether the last of two tokens
    could be removed; `state` the bytes of a checkpoint, 0 where llama.cpp gives none.
    """
    if snapshots:
        kind: Kind = "hybrid" if hybrid else "recurrent" if recurrent else "plain"
        reason = f"llama.cpp keeps the states of the last {snapshots + 1} tokens of a batch"
        return MemoryVerdict(kind, "snapshots", snapshots, reason)
    if recurrent or hybrid or not removable:
        kind = "recurrent" if recurrent else "hybrid" if hybrid else "plain"
        if not state:
            return MemoryVerdict(kind, "none", 0, "this model's memory can neither go back nor be copied")
        reason = f"going back restores a copy of {state / 2**20:,.1f} MiB and evaluates what was kept again"
        return MemoryVerdict(kind, "checkpoints", None, reason)
    if not window:
        return MemoryVerdict("plain", "remove", None, "any number of tokens can be taken back")
    if window_full:
        reason = f"sliding window of {window:,} tokens, all tokens kept: any number can be taken back"
        return MemoryVerdict("window", "remove", None, reason)
    spare = max(1, window_cells - window)
    reason = f"sliding window of {window:,} tokens, {window_cells:,} kept: up to {spare:,} can be taken back"
    return MemoryVerdict("window", "remove", spare, reason)
