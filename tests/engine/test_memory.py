"""Memories of every kind, through everything a conversation does to them, against contexts that start afresh."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from nsd_local.engine.context import Context
from nsd_local.engine.memory import verdict
from nsd_local.engine.prefill import prefill
from nsd_local.errors import Cancelled, DecodeError
from tests.tiny import Tiny

# What a memory may be wrong by. The logits have a standard deviation of 2.5; batches of other widths move them by up
# to 2e-5 with caches of float32. Gemma's GELU is read from a table of half-precision numbers, where the last bit of
# an input moves a logit by 1e-3. One wrong, missing or repeated token moves them by more than ten times as much
# (test_tiny_models_notice_one_wrong_token).
TOLERANCE = {"gemma3": 1e-2}
OTHERS = 2e-4
EXACT = {"cache_type_k": "f32", "cache_type_v": "f32"}
N_CTX = 640
SETTINGS = {  # how each kind of memory is used
    "llama": {},
    "gemma3": {"swa_full": True},
    "gemma3 windowed": {"swa_full": False, "n_ubatch": 32},
    "mamba": {},
    "jamba": {},
    "lfm2": {"snapshots": 6},
    "lfm2 checkpoints": {"snapshots": 0},
    "qwen35": {"snapshots": 6},
    "qwen35 checkpoints": {"snapshots": 0},
}
ROUNDS = 400


def both(make, name: str) -> tuple[Context, Context]:
    """The context under test, and one to compare with."""
    kind, options = name.split()[0], {**EXACT, "n_ctx": N_CTX, **SETTINGS[name]}
    return make(kind, **options), make(kind, n_ctx=N_CTX, **EXACT)


def same(context: Context, fresh: Context, row: np.ndarray) -> bool:
    """Whether `row`, the logits after all of the context's tokens, is what a context gives that starts afresh."""
    fresh.clear()
    difference = abs(fresh.evaluate(context.tokens, rows=1)[0] - row).max()
    return bool(difference < TOLERANCE.get(context.model.architecture, OTHERS))


@pytest.mark.parametrize(
    ("name", "kind", "method", "most"),
    [
        ("llama", "plain", "remove", None),
        ("gemma3", "window", "remove", None),
        ("gemma3 windowed", "window", "remove", 256 - 24),
        ("mamba", "recurrent", "checkpoints", None),
        ("jamba", "hybrid", "checkpoints", None),
        ("lfm2", "hybrid", "snapshots", 6),
        ("lfm2 checkpoints", "hybrid", "checkpoints", None),
        ("qwen35", "hybrid", "snapshots", 6),
        ("qwen35 checkpoints", "hybrid", "checkpoints", None),
    ],
)
def test_verdict(make, name, kind, method, most):
    memory = both(make, name)[0].memory
    assert (memory.kind, memory.method, memory.max_rollback) == (kind, method, most)
    assert memory.rollback
    assert memory.reason
    assert "\n" not in str(memory)


def test_verdict_without_any_way_back():
    facts = {"window": 0, "window_full": True, "window_cells": 0, "snapshots": 0, "removable": False, "state": 0}
    memory = verdict(recurrent=True, hybrid=False, **facts)
    assert not memory.rollback
    assert memory.max_rollback == 0
    assert "neither" in memory.reason


class Conversation:
    """Random rounds, edits, regenerations and cancellations on one context."""

    def __init__(self, context: Context, seed: int) -> None:
        self.context = context
        self.rng = np.random.default_rng(seed)
        self.turns: list[int] = []  # where prompts ended
        self.step = 0

    def text(self, n: int) -> list[int]:
        return self.rng.integers(0, 270, n).tolist()

    def begin(self) -> None:
        self.context.prefill(self.text(int(self.rng.integers(1, 60))))
        self.turns = [len(self.context.tokens)]

    def round(self) -> np.ndarray:
        """Evaluate [last, d1..dk] as a target does, keep some; the logits after what was kept."""
        k = int(self.rng.integers(0, 10))
        before = len(self.context.tokens)
        rows = self.context.evaluate(self.text(k + 1), rows=k + 1)
        kept = int(self.rng.integers(0, k + 1))
        row = rows[kept].copy()
        self.context.rewind(before + 1 + kept)
        return row

    def drafts(self) -> np.ndarray:
        """Evaluate tokens one by one as a draft does, then drop some."""
        before = len(self.context.tokens)
        self.context.mark()
        rows = [self.context.evaluate(self.text(1), rows=1)[0].copy() for _ in range(int(self.rng.integers(1, 8)))]
        kept = int(self.rng.integers(0, len(rows)))
        self.context.rewind(before + 1 + kept)
        return rows[kept]

    def again(self) -> None:
        """Regenerate or edit: back to the end of an earlier prompt, perhaps with other words."""
        at = self.turns[int(self.rng.integers(len(self.turns)))]
        kept = self.context.tokens[:at]
        if self.rng.random() < 0.5:
            kept = kept[: int(self.rng.integers(1, at + 1))] + self.text(int(self.rng.integers(1, 20)))
        self.context.prefill(kept)
        self.turns = [end for end in self.turns if end < len(kept)] + [len(kept)]

    def turn(self) -> None:
        self.context.prefill(self.context.tokens + self.text(int(self.rng.integers(1, 40))))
        self.turns.append(len(self.context.tokens))

    def cancelled(self) -> None:
        """A prompt of which reading is stopped."""
        wanted = self.context.tokens[: int(self.rng.integers(1, 20))] + self.text(100)
        for _ in prefill(self.context, wanted, chunk=30):
            if self.rng.random() < 0.5:
                break
        self.turns = [len(self.context.tokens)]

    def go(self) -> Iterator[np.ndarray | None]:
        """One action after the other; yields the logits after all tokens where the action gives them."""
        self.begin()
        while True:
            if len(self.context.tokens) > N_CTX - 80:
                self.context.clear()
                self.begin()
            action = self.rng.random()
            if action < 0.6:
                yield self.round()
            elif action < 0.85:
                yield self.drafts()
            else:
                which = (self.again, self.turn, self.cancelled)[int(self.rng.integers(3))]
                which()
                yield None


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", SETTINGS)
def test_memory_equals_a_fresh_one(make, name, seed):
    context, fresh = both(make, name)
    conversation = Conversation(context, seed)
    for number, row in zip(range(ROUNDS), conversation.go(), strict=False):
        if row is None:  # the next evaluation shows what the action left behind
            row = context.evaluate(conversation.text(1), rows=1)[0].copy()
        if number % 3 == 0:
            assert same(context, fresh, row), f"round {number}, {len(context.tokens)} tokens, {context.rewound}"


@pytest.mark.parametrize("name", SETTINGS)
def test_rewinds_take_the_cheapest_way(make, name):
    """Rounds of at most 6 drafts never start over; only checkpoints evaluate anything again, and only what was kept."""
    context, _ = both(make, name)
    context.prefill(list(range(40, 100)))
    for number in range(60):
        before = len(context.tokens)
        context.evaluate([*range(number, number + 7)], rows=7)
        context.rewind(before + 1 + number % 7)
    assert context.rewound.refilled == 0
    if context.memory.method == "checkpoints":
        assert context.rewound.restored > 0
        assert context.rewound.evaluated == sum(1 + number % 7 for number in range(60) if number % 7 != 6)
    else:
        assert context.rewound.restored == 0
        assert context.rewound.evaluated == 0


@pytest.mark.parametrize("name", SETTINGS)
def test_a_regenerated_turn_reads_nothing_again(make, name):
    """Long past the window and every snapshot: the end of the prompt is kept as an anchor."""
    context, fresh = both(make, name)
    prompt = np.random.default_rng(0).integers(0, 270, 200).tolist()
    context.prefill(prompt)
    for token in range(300):
        context.evaluate([token % 270], rows=1)
    assert context.prefill(prompt) == 0
    assert same(context, fresh, context.evaluate([5], rows=1)[0].copy())


@pytest.mark.parametrize("name", ["lfm2", "qwen35"])
def test_snapshots_of_earlier_batches_are_not_trusted(make, name):
    """llama.cpp "goes back" to a snapshot that the last batch did not write, and is wrong. We do not."""
    context, fresh = both(make, name)
    tokens = np.random.default_rng(0).integers(0, 270, 60).tolist()
    context.evaluate(tokens[:-4])
    for token in tokens[-4:]:
        context.evaluate([token], rows=1)
    context.rewind(len(tokens) - 3)
    assert same(context, fresh, context.evaluate([7], rows=1)[0].copy())

    lib, native = context._lib, fresh
    native = make(name, n_ctx=N_CTX, snapshots=6, **EXACT)
    native.evaluate(tokens[:-4])
    for token in tokens[-4:]:
        native.evaluate([token], rows=1)
    assert lib.llama_memory_seq_rm(lib.llama_get_memory(native.handle), 0, len(tokens) - 3, -1)
    del native.tokens[-3:]
    assert not same(native, fresh, native.evaluate([7], rows=1)[0].copy())


def test_a_window_that_lost_what_is_needed_starts_over(make):
    """swa_full=False removes "successfully" what can no longer be attended to: without anchors, read again."""
    context, fresh = both(make, "gemma3 windowed")
    tokens = np.random.default_rng(0).integers(0, 270, 600).tolist()
    context.evaluate(tokens)
    context.rewind(50)
    assert context.rewound.refilled == 1
    assert same(context, fresh, context.evaluate([7], rows=1)[0].copy())


@pytest.mark.parametrize("name", SETTINGS)
def test_rewind_to_any_length(make, name):
    context, fresh = both(make, name)
    tokens = np.random.default_rng(0).integers(0, 270, 100).tolist()
    context.evaluate(tokens)
    for n in (100, 99, 60, 59, 1, 0):
        context.rewind(n)
        assert context.tokens == tokens[:n]
    assert same(context, fresh, context.evaluate([7], rows=1)[0].copy())
    for n in (-1, 2, 100):
        with pytest.raises(DecodeError, match="cannot go back"):
            context.rewind(n)


@pytest.mark.parametrize("name", ["llama", "mamba", "lfm2"])
@pytest.mark.parametrize("mended", ["prefill", "rewind", "rewind further"])
def test_an_interrupted_change_is_not_trusted(make, name, mended, monkeypatch):
    """KeyboardInterrupt may come between llama_decode and the note of its tokens."""
    context, fresh = both(make, name)
    context.prefill([1, 2, 3])
    monkeypatch.setattr(context.rollback, "after", interrupted)
    with pytest.raises(KeyboardInterrupt):
        context.evaluate([4, 5], rows=1)
    monkeypatch.undo()
    with pytest.raises(DecodeError, match="interrupted"):
        context.evaluate([6], rows=1)
    if mended == "prefill":
        assert context.prefill([1, 2, 3]) == 3
    else:
        context.rewind(3 if mended == "rewind" else 2)
    assert context.tokens == [1, 2, 3][: len(context.tokens)]
    assert same(context, fresh, context.evaluate([7], rows=1)[0].copy())


def interrupted(_n: int) -> None:
    raise KeyboardInterrupt


def test_copies_stay_few(make):
    """A long conversation on a recurrent model keeps a bounded number of copies."""
    context = make("mamba", n_ctx=4096)
    for turn in range(40):
        context.prefill(context.tokens + list(range(turn, turn + 20)))
        for token in range(20):
            context.evaluate([token], rows=1)
    assert len(context.rollback.checkpoints) <= 10


def test_cancelled_is_raised_with_a_consistent_memory(make):
    context, fresh = both(make, "jamba")
    with pytest.raises(Cancelled):
        context.prefill(list(range(100)), cancelled=lambda: True)
    if context.tokens:
        assert same(context, fresh, context.evaluate([7], rows=1)[0].copy())


@pytest.mark.parametrize("kind", ["llama", "gemma3", "mamba", "jamba", "lfm2", "qwen35"])
def test_default_settings_stay_close(make, kind):
    """With half-precision caches, as users have them, rounds still equal a fresh context's within a hundredth."""
    context, fresh = make(kind, n_ctx=N_CTX), make(kind, n_ctx=N_CTX)
    conversation = Conversation(context, 5)
    for number, row in zip(range(120), conversation.go(), strict=False):
        if row is not None and number % 4 == 0:
            fresh.clear()
            assert abs(fresh.evaluate(context.tokens, rows=1)[0] - row).max() < 0.02


def test_tiny_models_notice_one_wrong_token(make):
    """The tolerance tells right from wrong: one changed, missing or repeated token shows in the logits."""
    for kind in ("llama", "gemma3", "mamba", "jamba", "lfm2", "qwen35"):
        context = make(tiny=Tiny(kind=kind, seed=1), n_ctx=256, **EXACT)
        tokens = np.random.default_rng(0).integers(0, 270, 40).tolist()
        right = context.evaluate(tokens, rows=1)[0].copy()
        for wrong in ([*tokens[:36], tokens[36] + 1, *tokens[37:]], tokens[:36] + tokens[37:], [tokens[0], *tokens]):
            context.clear()
            assert abs(context.evaluate(wrong, rows=1)[0] - right).max() > 10 * TOLERANCE.get(kind, OTHERS)
