"""Sessions on disk: what is restored goes on as if nothing had happened, and other files are refused with a reason."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from nsd_local.engine.session_file import restore_session, save_session
from nsd_local.errors import SessionError
from tests.tiny import Tiny

KINDS = ["llama", "gemma3", "mamba", "jamba", "lfm2", "qwen35"]
TEXT = np.random.default_rng(0).integers(0, 270, 300).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_goes_on_where_it_was(make, tmp_path, kind):
    path = tmp_path / "chat.nsd"
    target, draft = make(kind, n_ctx=512), make(tiny=Tiny(kind=kind, seed=2), n_ctx=512)
    target.prefill(TEXT)
    target.evaluate([1, 2, 3, 4], rows=4)
    target.rewind(302)
    draft.prefill(TEXT[:100])
    save_session(path, {"target": target, "draft": draft}, {"turns": 3})

    again, again_draft = make(kind, n_ctx=1024), make(tiny=Tiny(kind=kind, seed=2), n_ctx=512)
    again.prefill([9] * 40)  # what was there is replaced
    assert restore_session(path, {"target": again, "draft": again_draft}) == {"turns": 3}
    assert again.tokens == target.tokens == [*TEXT, 1, 2]
    assert again_draft.tokens == TEXT[:100]
    assert (again.evaluate([7, 8], rows=2) == target.evaluate([7, 8], rows=2)).all()
    again.rewind(303)
    target.rewind(303)
    assert abs(again.evaluate([5], rows=1) - target.evaluate([5], rows=1)).max() < 1e-2
    assert again.rewound.refilled == 0


def test_an_empty_session_and_one_without_its_draft(make, tmp_path):
    path = tmp_path / "chat.nsd"
    target, draft = make(n_ctx=512), make(n_ctx=512)
    save_session(path, {"target": target})
    target.prefill(TEXT)
    assert restore_session(path, {"target": target, "draft": draft}) == {}
    assert target.tokens == []
    target.prefill(TEXT)
    save_session(path, {"target": target, "draft": draft})
    alone = make(n_ctx=512)
    restore_session(path, {"target": alone})
    assert alone.tokens == TEXT


def saved(make, tmp_path, **options):
    path = tmp_path / "chat.nsd"
    context = make(n_ctx=512, **options)
    context.prefill(TEXT)
    save_session(path, {"target": context})
    return path


def refused(path, context) -> str:
    """The reason; the context is as it was."""
    context.prefill([1, 2, 3])
    with pytest.raises(SessionError) as caught:
        restore_session(path, {"target": context})
    assert context.tokens == [1, 2, 3]
    context.evaluate([4], rows=1)
    return str(caught.value)


def test_other_models_and_settings_are_refused(make, tmp_path):
    path = saved(make, tmp_path)
    assert "another model" in refused(path, make(tiny=Tiny(seed=2, name="other"), n_ctx=512))
    assert "other cache settings" in refused(path, make(n_ctx=512, cache_type_k="f32"))
    assert "other cache settings" in refused(path, make(n_ctx=512, flash_attention=True))
    assert "300 tokens, the context 256" in refused(path, make(n_ctx=256))


def test_other_files_are_refused(make, tmp_path, tiny_target):
    context = make(n_ctx=512)
    text = tmp_path / "text.nsd"
    text.write_text("Dear diary")
    assert "not a saved session" in refused(text, context)
    assert "not a saved session" in refused(tiny_target, context)
    assert "cannot be read" in refused(tmp_path / "none.nsd", context)
    assert "cannot be read" in refused(tmp_path, context)


def test_damaged_sessions_are_refused(make, tmp_path):
    path = saved(make, tmp_path)
    context, whole = make(n_ctx=512), path.read_bytes()
    for end in (0, 4, 10, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:end])
        assert any(word in refused(path, context) for word in ("incomplete", "damaged", "not a saved session"))
    rng = np.random.default_rng(0)
    for _ in range(60):
        data = bytearray(whole)
        data[int(rng.integers(8, len(data)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        assert refused(path, context)
    path.write_bytes(whole + b"x")
    assert "incomplete" in refused(path, context) or "damaged" in refused(path, context)
    path.write_bytes(whole)
    restore_session(path, {"target": context})
    assert context.tokens == TEXT


def test_a_killed_save_leaves_the_old_session(make, tmp_path, tiny_target):
    """The process is killed when the new file is written but not yet moved to its place."""
    path = saved(make, tmp_path)
    old = path.read_bytes()
    program = f"""
import os, signal
from pathlib import Path
from nsd_local.engine import session_file
from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
session_file.os.replace = lambda *_: os.kill(os.getpid(), 9)
context = Context(Model.load({str(tiny_target)!r}))
context.prefill([1, 2, 3])
session_file.save_session(Path({str(path)!r}), {{"target": context}})
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False)
    assert ended.returncode != 0
    assert path.read_bytes() == old
    context = make(n_ctx=512)
    restore_session(path, {"target": context})
    assert context.tokens == TEXT


def test_a_failed_save_leaves_the_old_session_and_no_litter(make, tmp_path, monkeypatch):
    path = saved(make, tmp_path)
    old = path.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    context = make(n_ctx=512)
    context.prefill([1])
    with pytest.raises(SessionError, match="No space left"):
        save_session(path, {"target": context})
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]
