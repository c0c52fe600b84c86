"""Files that would end the process that opens them end a child instead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nsd_local.engine import safe_open
from nsd_local.engine.safe_open import Verdict, ensure_openable, try_files
from nsd_local.errors import ModelError
from tests import tiny
from tests.engine.mutants import mutants
from tests.tiny import Tiny
from tests.tiny_kinds import KINDS

COPIES = 2_000
# Reads one path per line, loads and evaluates it as a program does, answers a line: what the parent would do.
PARENT = """
import sys
from pathlib import Path
from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions
from nsd_local.errors import NsdError
for line in sys.stdin:
    try:
        with Model.load(Path(line.strip())) as model, Context(model, ContextOptions(n_ctx=512)) as context:
            context.evaluate(model.tokenize("Hello, world", special=True, add_bos=True) or [0], rows=1)
            context.rewind(0)
        print("loaded", flush=True)
    except NsdError:
        print("refused", flush=True)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Verdicts are kept in a folder of the test's own."""
    monkeypatch.setenv("NSD_LOCAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "opened"


@pytest.fixture
def deadly(tmp_path) -> Path:
    """Two tokens of the same text: an assertion in llama.cpp's vocabulary ends the process."""
    path = tiny.write(tmp_path / "deadly.gguf", Tiny())
    data = path.read_bytes()
    old, new = (f"[PAD{n}]".encode() for n in (300, 301))
    assert data.count(old) == 1
    path.write_bytes(data.replace(old, new))
    return path


def test_a_deadly_file_ends_the_child_only(deadly):
    with pytest.raises(ModelError, match="ended the process") as caught:
        ensure_openable(deadly)
    assert caught.value.exit_code == 3
    direct = subprocess.run(
        [sys.executable, "-c", f"from nsd_local.engine.model import Model; Model.load({str(deadly)!r})"],
        env=os.environ | {"GGML_NO_BACKTRACE": "1"},
        capture_output=True,
        check=False,
    )
    assert direct.returncode not in (0, 1)  # without the child this would have been us


def test_sound_files_of_every_kind_pass(tiny_model):
    paths = [tiny_model(Tiny(kind=kind, seed=1)) for kind in KINDS]
    assert [verdict.ok for verdict in try_files(paths)] == [True] * len(paths)


def test_verdicts_are_remembered(tiny_target, deadly, cache, monkeypatch):
    ensure_openable(tiny_target)
    with pytest.raises(ModelError):
        ensure_openable(deadly)
    assert len(list(cache.iterdir())) == 2

    def fail(_paths):
        raise AssertionError("tried again")

    monkeypatch.setattr(safe_open, "try_files", fail)
    ensure_openable(tiny_target)
    with pytest.raises(ModelError, match="ended the process"):
        ensure_openable(deadly)


def test_a_changed_file_is_tried_again(tiny_target, tmp_path, monkeypatch):
    path = tmp_path / "mine.gguf"
    path.write_bytes(tiny_target.read_bytes())
    ensure_openable(path)
    tried: list[Path] = []
    monkeypatch.setattr(safe_open, "try_files", lambda paths: iter([tried.extend(paths) or Verdict(path, ok=True)]))
    ensure_openable(path)
    assert tried == []
    os.utime(path, ns=(1, 1))
    ensure_openable(path)
    assert tried == [path]


def test_a_trusted_file_is_not_tried(tiny_target, monkeypatch):
    monkeypatch.setattr(safe_open, "try_files", lambda paths: pytest.fail("tried"))
    assert ensure_openable(tiny_target, trusted=True).architecture == "llama"


def test_a_damaged_note_is_ignored(tiny_target, cache):
    ensure_openable(tiny_target)
    (note,) = cache.iterdir()
    for content in ("", "{", "[]", json.dumps({"ok": True, "unknown": 1})):
        note.write_text(content)
        ensure_openable(tiny_target)
        assert json.loads(note.read_text())["ok"]


def test_reasons_of_the_child_arrive(tiny_target, tmp_path):
    path = tmp_path / "lacking.gguf"
    path.write_bytes(tiny_target.read_bytes().replace(b"output_norm.weight", b"output_form.weight"))
    (verdict,) = try_files([path])
    assert not verdict.ok
    assert not verdict.ended
    assert "output_norm.weight" in verdict.why


def test_weights_that_are_no_numbers_are_refused(tiny_target, tmp_path):
    path = tmp_path / "nan.gguf"
    data = bytearray(tiny_target.read_bytes())
    data[-320 * 64 * 4 :] = np.full(320 * 64, np.nan, dtype=np.float32).tobytes()
    path.write_bytes(data)
    (verdict,) = try_files([path])
    assert "no usable numbers" in verdict.what


def test_a_silent_child_is_ended(tiny_target, monkeypatch):
    """A file that makes llama.cpp run for ever."""
    monkeypatch.setattr(safe_open, "_MODULE", "tests.engine.sleeper")
    monkeypatch.setattr(safe_open, "_SECONDS", 0.2)
    (verdict,) = try_files([tiny_target])
    assert verdict.ended


def test_two_thousand_damaged_copies(tmp_path):
    """Each loads or is refused with a reason; what passes the trial does not end a program that then loads it."""
    rng = np.random.default_rng(2_000)
    counts = {"sound": 0, "refused": 0, "ended": 0}
    program = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    )
    assert program.stdin
    assert program.stdout
    for kind in KINDS:
        original = tiny.write(tmp_path / f"{kind}.gguf", Tiny(kind=kind, n_vocab=281, n_embd=32, n_ff=32, seed=1))
        damage = {}
        for number, (what, data) in enumerate(mutants(original.read_bytes(), -(-COPIES // len(KINDS)), rng)):
            path = tmp_path / f"{kind}_{number}.gguf"
            path.write_bytes(data)
            damage[path] = what
        for verdict in try_files(list(damage)):
            if verdict.ok:
                program.stdin.write(f"{verdict.path}\n")
                program.stdin.flush()
                answer = program.stdout.readline().strip()
                assert answer in ("loaded", "refused"), f"{damage[verdict.path]}: the program was ended"
            else:
                assert verdict.what
                assert verdict.why
            counts["sound" if verdict.ok else "ended" if verdict.ended else "refused"] += 1
            verdict.path.unlink()
    program.stdin.close()
    assert program.wait() == 0
    assert sum(counts.values()) >= COPIES
    assert min(counts.values()) > 0, counts  # the damage is neither too mild nor too crude to test anything
