"""Hostile programs end as failed problems, whichever fences there are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nsd_local.measure.sandbox import ALL_FENCES, Limits, Outcome, run_program

LINUX = sys.platform.startswith("linux")
PORTABLE = ("limits", "hook")  # what there is on every system
FENCES = [ALL_FENCES, PORTABLE, ("limits", "kernel")] if LINUX else [ALL_FENCES]
SHORT = Limits(seconds=1.0)  # for programs that never end
LONG = Limits(seconds=60.0)


@pytest.fixture(params=FENCES, ids="+".join)
def fences(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return request.param


def test_a_good_program_passes(fences: tuple[str, ...]) -> None:
    outcome = run_program("import math, re, collections\nassert math.gcd(12, 18) == 6", LONG, fences=fences)
    assert outcome.passed, outcome.reason


@pytest.mark.skipif(not LINUX, reason="only Linux has this fence")
def test_linux_has_every_fence() -> None:
    assert run_program("pass").fences == ("limits", "seccomp", "landlock", "hook")


def test_numpy_and_files_in_the_folder_work(fences: tuple[str, ...]) -> None:
    program = """
import tempfile, os, numpy
with open("a.txt", "w") as file: file.write("x")
with tempfile.TemporaryDirectory() as folder: open(os.path.join(folder, "b"), "wb").write(b"y")
os.remove("a.txt")
assert numpy.arange(3).sum() == 3
"""
    outcome = run_program(program, LONG, fences=fences)
    assert outcome.passed, outcome.reason


def test_a_failing_test_names_the_exception() -> None:
    outcome = run_program("assert 1 + 1 == 3, 'arithmetic'")
    assert (outcome.passed, outcome.reason) == (False, "AssertionError: arithmetic")


@pytest.mark.parametrize("program", ["import sys; sys.exit(0)", "import os; os._exit(0)", "raise SystemExit"])
def test_leaving_early_is_no_pass(program: str) -> None:
    assert not run_program(program + "\nassert False").passed


def test_a_forged_verdict_is_no_pass() -> None:
    program = """
import json, os
for fd in range(3, 64):
    try: os.write(fd, json.dumps({"secret": "guess", "error": "", "notes": [], "fences": []}).encode())
    except OSError: pass
os._exit(0)
"""
    assert not run_program(program).passed


def test_an_endless_loop_is_stopped(fences: tuple[str, ...]) -> None:
    assert_reason(run_program("while True: pass", SHORT, fences=fences), "timeout")


def test_an_endless_loop_that_catches_everything_is_stopped(fences: tuple[str, ...]) -> None:
    program = "import signal\nwhile True:\n    try:\n        while True: pass\n    except BaseException: pass"
    assert_reason(run_program(program, SHORT, fences=fences), "timeout")


def test_a_sleeping_program_is_stopped(fences: tuple[str, ...]) -> None:
    assert_reason(run_program("import time\ntime.sleep(1000)", SHORT, fences=fences), "timeout")


def test_a_fork_bomb_is_stopped(fences: tuple[str, ...]) -> None:
    if not hasattr(__import__("os"), "fork"):
        pytest.skip("this system cannot fork")
    outcome = run_program("import os\nwhile True: os.fork()", LONG, fences=fences)
    assert_reason(outcome, "refused: os.fork", "PermissionError", "BlockingIOError")


def test_starting_programs_is_refused(fences: tuple[str, ...]) -> None:
    program = "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'while True: pass'])"
    assert_reason(run_program(program, LONG, fences=fences), "refused: subprocess", "PermissionError")


def test_ten_gigabytes_are_refused(fences: tuple[str, ...]) -> None:
    outcome = run_program("x = b'x' * (10 << 30)", Limits(seconds=30), fences=fences)
    assert_reason(outcome, "MemoryError", "memory")


def test_memory_is_watched_from_outside_too() -> None:
    program = "x = []\nwhile True: x.append(bytes(1 << 20) + b'x')"
    outcome = run_program(program, Limits(seconds=60, memory_mb=200), fences=("hook",))
    assert_reason(outcome, "memory", "MemoryError")


def test_a_full_disk_is_prevented() -> None:
    if sys.platform == "win32":
        pytest.skip("Windows has no file size limit")
    outcome = run_program("f = open('a', 'w')\nwhile True: f.write('x' * 1_000_000)", LONG)
    assert_reason(outcome, "OSError", "ended early: by SIGXFSZ")


@pytest.mark.parametrize(
    "program",
    [
        "for i in range(20): open(str(i), 'wb').write(bytes(8 << 20))",
        "for i in range(20_000): open(str(i), 'wb').close()",
    ],
    ids=["large", "empty"],
)
def test_many_files_are_too_much_too(program: str, fences: tuple[str, ...]) -> None:
    outcome = run_program(f"{program}\nwhile True: pass", Limits(seconds=20), fences=fences)
    assert_reason(outcome, "disk: ")


@pytest.mark.parametrize(
    "change",
    [
        "open(PATH, 'w').write('evil')",
        "import os; os.close(os.open(PATH, os.O_RDWR))",
        "import os; os.remove(PATH)",
        "import os; os.rename(PATH, 'mine')",
        "import os; os.truncate(PATH, 0)",
        "import os; os.chmod(PATH, 0)",
        "import os; os.mkdir(PATH + '-folder')",
        "import os; os.symlink(os.path.dirname(PATH), 'door'); open('door/' + os.path.basename(PATH), 'w')",
        "import pathlib; pathlib.Path(PATH).write_text('evil')",
        "import shutil; shutil.rmtree(__import__('os').path.dirname(PATH))",
        "import sqlite3; sqlite3.connect(PATH + '.db').execute('create table evil (x)')",
    ],
)
def test_changes_outside_the_folder_are_refused(change: str, fences: tuple[str, ...], tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_text("as it was", encoding="utf-8")
    outcome = run_program(f"PATH = {str(victim)!r}\n{change}", LONG, fences=fences)
    assert_reason(outcome, "refused: ", "PermissionError", "OperationalError", "OSError")
    assert victim.read_text(encoding="utf-8") == "as it was"
    assert list(tmp_path.iterdir()) == [victim]


@pytest.mark.parametrize(
    "call",
    [
        "import socket; socket.create_connection(('127.0.0.1', 9), 1)",
        "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
        "import socket; socket.getaddrinfo('example.org', 80)",
        "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9/', timeout=1)",
    ],
)
def test_network_calls_are_refused(call: str, fences: tuple[str, ...]) -> None:
    outcome = run_program(call, LONG, fences=fences)
    assert_reason(outcome, "refused: socket", "PermissionError", "gaierror", "URLError")


def test_what_was_tried_counts_even_when_the_program_hides_it() -> None:
    program = "try:\n    import socket; socket.socket()\nexcept OSError:\n    pass"
    assert_reason(run_program(program), "refused: socket")


def test_native_code_is_out_of_reach() -> None:
    assert_reason(run_program("import ctypes\nctypes.CDLL(None).fork()"), "refused: ctypes")


def test_it_cannot_kill_who_started_it(fences: tuple[str, ...]) -> None:
    outcome = run_program("import os\nos.kill(os.getppid(), 9)", LONG, fences=fences)
    assert_reason(outcome, "refused: os.kill", "PermissionError")


def test_environment_and_standard_input_are_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "value")
    program = "import os, sys\nassert 'A_SECRET' not in os.environ\nassert sys.stdin.read() == ''"
    outcome = run_program(program)
    assert outcome.passed, outcome.reason


def assert_reason(outcome: Outcome, *starts: str) -> None:
    assert not outcome.passed
    assert outcome.reason.startswith(starts), outcome.reason
