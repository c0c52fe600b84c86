"""The edge of the command line: start-up, exit codes, errors in one paragraph."""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nsd_local import __version__
from nsd_local.cli.commands import COMMANDS
from nsd_local.cli.main import main
from nsd_local.errors import ModelError
from tests.cli.conftest import Run

HEAVY = ("llama_cpp", "numba", "gradio", "numpy", "huggingface_hub")
IMPORTED = f"""
import sys
from nsd_local.cli.main import main
code = main(sys.argv[1:])
print(*[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
sys.exit(code)
"""


def test_version_takes_little_cpu_time() -> None:
    resource = pytest.importorskip("resource", reason="only POSIX tells the CPU time of a child")

    def cpu_seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        answer = subprocess.run(
            [sys.executable, "-m", "nsd_local", "--version"], capture_output=True, text=True, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert answer.stdout == f"nsd-local {__version__}\n"
        return float(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)

    # CPU time, not wall time; the least of three, since a busy machine makes it larger, never smaller
    assert min(cpu_seconds() for _ in range(3)) < 0.3


@pytest.mark.parametrize(
    "arguments", [["--version"], ["--help"], [], ["list"], ["show", "qwen3-8b"], ["pull", "--help"]]
)
def test_light_commands_import_nothing_heavy(arguments: list[str], nsd_local: Run) -> None:
    ended = nsd_local(*arguments, code=IMPORTED)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout
    assert ended.stderr.splitlines()[-1] == ""


def test_help_lists_the_commands(nsd_local: Run) -> None:
    for arguments in (["--help"], []):
        said = nsd_local(*arguments).stdout
        for name in ("generate", "pull", "list", "show", "rm", "doctor"):
            assert f" {name} " in said


@pytest.mark.parametrize("name", [name for name, one in COMMANDS.items() if importlib.util.find_spec(one.module)])
def test_every_command_is_where_the_table_says(name: str, nsd_local: Run) -> None:
    command = COMMANDS[name]
    function = getattr(importlib.import_module(command.module), command.function)
    assert inspect.getdoc(function)
    said = nsd_local(name, "--help")
    assert said.returncode == 0, said.stderr
    assert f"nsd-local {name}" in said.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["pulll"], 2, "Did you mean 'pull'"),
        (["list", "--lokal"], 2, "No such option"),
        (["show", "qwen3-8c"], 2, "Did you mean qwen3-8b"),
        (["show", "/no/such/file.gguf"], 3, "There is no file"),
        (["pull", "qwen3-0.6b"], 1, "cannot be reached"),
        (["generate", "Hello", "world"], 2, "into quotes"),
        (["generate", "Hello", "--grammar", "nofile"], 2, "There is no file nofile. --grammar takes a text file.\n"),
        (["simulate", "--rounds", "x", "--costs", "y"], 2, "There is no file x.\n"),
    ],
)
def test_exit_codes_and_paragraphs(arguments: list[str], code: int, said: str, nsd_local: Run) -> None:
    ended = nsd_local(*arguments)
    assert ended.returncode == code
    assert said in ended.stderr
    assert "Errno" not in ended.stderr
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr


def test_debug_shows_where_it_failed(nsd_local: Run) -> None:
    for arguments in (["--debug", "show", "nothing"], ["show", "nothing", "--debug"]):
        ended = nsd_local(*arguments)
        assert ended.returncode == 2
        assert "Traceback" in ended.stderr
    assert "Traceback" not in nsd_local("show", "--", "--debug").stderr


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (
            ModelError("The file is bad", "it ends early", "Fetch it again"),
            3,
            "The file is bad. It ends early. Fetch it again.",
        ),
        (KeyboardInterrupt(), 130, "Interrupted."),
        (
            ZeroDivisionError("oh"),
            1,
            "nsd-local failed unexpectedly (ZeroDivisionError: oh). Run it again with --debug.",
        ),
    ],
)
def test_what_a_command_raises_becomes_an_exit_code(
    raised: BaseException, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import nsd_local.cli.commands as commands

    def fail(arguments: list[str]) -> int:
        raise raised

    monkeypatch.setattr(commands, "run", fail)
    assert main(["generate"]) == code
    assert capsys.readouterr().err.strip() == said


def test_a_console_of_another_encoding_is_no_reason_to_fail(nsd_local: Run) -> None:
    code = "import sys; from nsd_local.cli import main as m; m._make_output_unicode(); print('漢字')"
    ended = nsd_local(code=code, PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stdout) == (0, "??\n")


@pytest.mark.skipif(sys.platform == "win32", reason="the streams are closed by a line for sh")
@pytest.mark.parametrize(
    ("closed", "command", "code", "said"),
    [
        ("2>&-", "rules", 0, ""),
        (">&-", "rules", 0, ""),
        ("<&-", "generate", 2, "The prompt is empty"),
        ("<&- >&- 2>&-", "generate", 2, ""),
    ],
)
def test_closed_streams_are_no_failure(closed: str, command: str, code: int, said: str) -> None:
    line = f'exec "$0" -m nsd_local {command} {closed}'
    ended = subprocess.run(["sh", "-c", line, sys.executable], capture_output=True, text=True, check=False)
    assert ended.returncode == code
    assert said in ended.stderr
    assert "AttributeError" not in ended.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the full disk is played by /dev/full, which only Linux has")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["--version", "rules", "list --json"])
def test_a_full_disk_is_told_in_one_line(command: str, unbuffered: str) -> None:
    ended = subprocess.run(
        ["sh", "-c", f'exec "$0" -m nsd_local {command} > /dev/full', sys.executable],
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == ["The output could not be written: No space left on device"]
