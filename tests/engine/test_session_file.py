"""Sessions on disk: what is restored goes on as if nothing had happened, and other files are refused with a reason."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import gguf
import numpy as np
import pytest

from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions, Lora, ModelOptions
from nsd_local.engine.session_file import MAGIC, restore_session, save_session
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
    assert "differs from it in: weights." in refused(path, make(tiny=Tiny(seed=2), n_ctx=512))
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


def rewritten(whole: bytes, header: object) -> bytes:
    """The session with another header (an object, or text), and a checksum that fits."""
    length = int.from_bytes(whole[8:16], "little")
    text = header.encode() if isinstance(header, str) else json.dumps(header).encode()
    body = MAGIC + len(text).to_bytes(8, "little") + text + whole[16 + length : -32]
    return body + hashlib.sha256(body).digest()


def header_of(whole: bytes) -> dict:
    return json.loads(whole[16 : 16 + int.from_bytes(whole[8:16], "little")])


def test_headers_of_other_types_are_refused(make, tmp_path):
    path = saved(make, tmp_path)
    whole, context = path.read_bytes(), make(n_ctx=512)
    good = header_of(whole)
    part = good["parts"][0]
    parts = [{k: v for k, v in part.items() if k != "role"}]
    parts += [part | {"role": role} for role in ([], 5, None, {})]
    parts += [part | {key: value} for key in ("tokens", "state") for value in (-1, 1.5, True, "300", None)]
    headers = [good | {"note": note} for note in (5, None, [], "x")]
    headers += [good | {"parts": [bad]} for bad in [*parts, 5, None]]
    headers += [good | {"parts": other} for other in (5, None, {}, [part, part])]
    headers += [[], 5, None, "[" * 100_000, '{"note":' * 50_000, "9" * 10_000]
    for header in headers:
        path.write_bytes(rewritten(whole, header))
        assert refused(path, context)
    path.write_bytes(rewritten(whole, good))
    restore_session(path, {"target": context})
    assert context.tokens == TEXT


def test_tokens_that_the_model_lacks_are_refused(make, tmp_path):
    path = saved(make, tmp_path)
    whole, context = path.read_bytes(), make(n_ctx=512)
    at = 16 + int.from_bytes(whole[8:16], "little")
    for stranger in (-1, 320, 2**31 - 1):
        body = whole[:at] + stranger.to_bytes(4, "little", signed=True) + whole[at + 4 : -32]
        path.write_bytes(body + hashlib.sha256(body).digest())
        assert "damaged" in refused(path, context)


@pytest.mark.skipif(os.name == "nt", reason="the pipe is made by os.mkfifo, which only POSIX has")
def test_only_regular_files_are_replaced(make, tmp_path):
    context = make(n_ctx=512)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "to-null").symlink_to("/dev/null")
    for path in (tmp_path / "pipe", tmp_path / "to-null", tmp_path / "loop", tmp_path):
        with pytest.raises(SessionError, match="could not be saved"):
            save_session(path, {"target": context})
    for path in (tmp_path / "pipe", tmp_path / "to-null", tmp_path / "loop"):
        assert "cannot be read" in refused(path, context)
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["loop", "pipe", "to-null"]


@pytest.mark.skipif(os.name == "nt", reason="Windows lets only some users make symbolic links")
def test_a_link_stays_a_link(make, tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "link.nsd"
    link.symlink_to("there/real.nsd")
    context = make(n_ctx=512)
    context.prefill(TEXT)
    for _ in range(2):  # leading to nothing yet, and to a file
        save_session(link, {"target": context})
        assert link.is_symlink()
        assert (tmp_path / "there" / "real.nsd").read_bytes()[:8] == MAGIC
    restore_session(link, {"target": context})


def test_notes_and_paths_that_cannot_be_written(make, tmp_path):
    context = make(n_ctx=512)
    round_: list = []
    round_.append(round_)
    nested: list = []
    for _ in range(100_000):
        nested = [nested]
    for note in ({"a": object()}, {"a": round_}, {"a": nested}, {(1, 2): 3}, 5):
        with pytest.raises(SessionError, match="note is not JSON"):
            save_session(tmp_path / "a.nsd", {"target": context}, note)
    for name in ("a\0b", "a\ud800", "a" * 5_000, "~nobody-of-this-name/a.nsd"):
        path = tmp_path / name if name[0] != "~" else type(tmp_path)(name)
        with pytest.raises(SessionError) as caught:
            save_session(path, {"target": context})
        assert len(str(caught.value)) < 600
        with pytest.raises(SessionError):
            restore_session(path, {"target": context})
    assert list(tmp_path.iterdir()) == []


def adapter(path, value: float):
    """A LoRA of rank 1 on one tensor of the tiny llama."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_string("general.type", "adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 1.0)
    writer.add_tensor("blk.0.attn_output.weight.lora_a", np.full((1, 64), value, np.float32))
    writer.add_tensor("blk.0.attn_output.weight.lora_b", np.full((64, 1), 0.1, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_an_adapter_counts_by_content_and_scale(tmp_path, tiny_target):
    path, lora = tmp_path / "chat.nsd", adapter(tmp_path / "lora.gguf", 0.1)
    options = ContextOptions(n_ctx=512)

    def attempt(scale: float, act) -> None:
        with (
            Model.load(tiny_target, ModelOptions(lora=(Lora(lora, scale),))) as model,
            Context(model, options) as context,
        ):
            context.prefill([1, 2, 3])
            act(path, {"target": context})

    attempt(1.0, save_session)
    attempt(1.0, restore_session)
    with pytest.raises(SessionError, match=r"another model.* in: LoRA adapters"):
        attempt(0.5, restore_session)
    adapter(lora, 0.2)
    with pytest.raises(SessionError, match="another model"):
        attempt(1.0, restore_session)


def test_what_an_interrupted_pass_left_is_not_saved(make, tmp_path):
    """Nobody knows what the memory holds then: the session is empty, but it can be restored."""
    context, path = make(n_ctx=512), tmp_path / "chat.nsd"
    context.prefill(TEXT)
    real = context._decode

    def interrupted(*args):
        real(*args)
        raise KeyboardInterrupt

    context._decode = interrupted
    with pytest.raises(KeyboardInterrupt):
        context.evaluate([1, 2], rows=1)
    save_session(path, {"target": context})
    again = make(n_ctx=512)
    restore_session(path, {"target": again})
    assert again.tokens == context.tokens == []
