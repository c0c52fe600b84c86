"""Files that would end the process that opens them end a child instead."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
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

# Tries a file for ever. Notes the first Ctrl-C, as the commands do while they answer.
TRIES = """
import signal, sys
from pathlib import Path
from nsd_local.engine import safe_open
signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, signal.default_int_handler))
safe_open._MODULE = "tests.engine.sleeper"
safe_open.ensure_openable(Path(sys.argv[1]))
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Verdicts are kept in a folder of the test's own."""
    monkeypatch.setenv("NSD_LOCAL_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "opened"


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
    assert not verdict.lasting
    assert "was not done" in verdict.why


@pytest.mark.skipif(os.name == "nt", reason="os.kill sends a signal on POSIX only")
@pytest.mark.parametrize(
    ("name", "fault"), [("SIGINT", False), ("SIGKILL", False), ("SIGTERM", False), ("SIGSEGV", True), ("SIGBUS", True)]
)
def test_only_a_fault_condemns_the_file(tiny_target, cache, monkeypatch, name, fault):
    """A sound file whose trial is killed by Ctrl-C, or for want of memory, is refused this time only."""
    monkeypatch.setenv("DIE_BY", name)
    with monkeypatch.context() as dying:
        dying.setattr(safe_open, "_MODULE", "tests.engine.dying")
        with pytest.raises(ModelError, match="malformed" if fault else "not by the file"):
            ensure_openable(tiny_target)
    assert cache.exists() == fault
    if not fault:
        ensure_openable(tiny_target)


def test_a_child_that_cannot_start_condemns_no_file(tiny_target, cache, monkeypatch):
    with monkeypatch.context() as failing:
        failing.setattr(safe_open, "_MODULE", "tests.engine.no_such_module")
        with pytest.raises(ModelError, match="exit code 1"):
            ensure_openable(tiny_target)
    assert not cache.exists()


def test_notes_of_before_that_may_be_wrong_are_not_believed(tiny_target, cache):
    """They remembered any end of the process."""
    ensure_openable(tiny_target)
    (note,) = cache.iterdir()
    note.write_text(json.dumps({"ok": False, "what": "is malformed", "why": "signal 2", "do": "", "ended": True}))
    ensure_openable(tiny_target)


def child_of(parent: subprocess.Popen[str]) -> psutil.Process:
    """The process in which `parent` tries a file, once it runs."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for child in psutil.Process(parent.pid).children():
            if "tests.engine.sleeper" in child.cmdline():
                return child
        time.sleep(0.01)
    raise AssertionError("nothing was tried")


def ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.skipif(os.name == "nt", reason="process groups and their signals are those of POSIX")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_ctrl_c_in_a_terminal_ends_no_child_but_the_end_of_the_parent_does(tiny_target, cache, name):
    parent = subprocess.Popen(
        [sys.executable, "-c", TRIES, str(tiny_target)],
        start_new_session=True,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    child = child_of(parent)
    os.killpg(parent.pid, signal.SIGINT)  # the first one is only noted
    time.sleep(0.3)
    assert not ended(child)
    os.killpg(parent.pid, getattr(signal, name))
    assert ("KeyboardInterrupt" in parent.communicate(timeout=60)[1]) == (name == "SIGINT")
    deadline = time.monotonic() + 60
    while not ended(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not cache.exists()


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
