"""`bench`, `compare`, `sweep`, `eval` and `report` as a person runs them, on tiny models; each takes seconds."""

from __future__ import annotations

import csv
import io
import json
import os
import runpy
import signal
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from nsd_local.catalog.home import HOME_VARIABLE
from nsd_local.cli import lab
from nsd_local.cli.main import main
from nsd_local.measure.journal import read_journal
from tests import tiny
from tests.tiny import Tiny

PAIR = ["-m", "target.gguf", "-d", "draft.gguf", "--threads", "1", "--ctx", "2048", "-n", "12"]
FAST = [*PAIR, "-k", "3", "--limit", "2"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("lab")
    tiny.write(home / "target.gguf", Tiny(seed=1, stop_bias=-1.0))
    tiny.write(home / "draft.gguf", Tiny(seed=1, stop_bias=-1.0, noise=0.1))
    problems = [{"id": f"p{i}", "question": f"What is {i} + {i}?", "answer": str(2 * i)} for i in range(2)]
    (home / "sums.jsonl").write_text("\n".join(map(json.dumps, problems)), encoding="utf-8")
    return home


def command(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "nsd_local", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        cwd=home,
        env={**os.environ, HOME_VARIABLE: str(home), "PYTHONIOENCODING": "utf-8", "COLUMNS": "100"},
    )


def run(home: Path, *arguments: str) -> tuple[str, str]:
    """stdout and stderr of a command that succeeds."""
    process = command(home, *arguments)
    out, error = process.communicate(timeout=600)
    assert process.returncode == 0, error
    return out, error


def refused(home: Path, *arguments: str) -> tuple[int, str]:
    process = command(home, *arguments)
    out, error = process.communicate(timeout=600)
    assert out == ""
    return process.returncode, error


def test_bench_prints_one_table(home: Path) -> None:
    out, error = run(home, "bench", *FAST)
    lines = out.splitlines()
    assert lines[0].startswith("| kind | arm ")
    assert [line.split("|")[2].strip() for line in lines[-3:]] == ["plain", "exact", "nucleus"]
    assert "target.gguf" in error.splitlines()[0]
    assert "[6/6]" in error
    assert "plain decoding before and after" in error


def test_bench_in_every_format(home: Path) -> None:
    arms = ["-a", "plain", "-a", "nucleus:theta=0.8,budget=1"]
    rows = json.loads(run(home, "bench", *FAST, *arms, "-f", "json")[0])["rows"]
    assert len(rows) == 4
    lines = [json.loads(line) for line in run(home, "bench", *FAST, *arms, "-f", "jsonl")[0].splitlines()]
    assert sum("table" not in line for line in lines) == 4
    table = list(csv.DictReader(io.StringIO(run(home, "bench", *FAST, *arms, "-f", "csv")[0])))
    for timed in (rows, [line for line in lines if "table" not in line], table):
        assert {row["arm"] for row in timed} == {"plain", "nucleus:theta=0.8,budget=1"}
        assert all(float(row["predicted_per_second"]) > 0 for row in timed)
        assert len({row["model_sha256"] for row in timed}) == 1


def test_everything_into_a_folder_and_a_report(home: Path) -> None:
    out = ["-o", "records"]
    run(home, "bench", *FAST, "--positions", *out)
    grid, _ = run(home, "sweep", *PAIR, "--limit", "1", "--ks", "1,2", "--thetas", "0.8,0.9", *out)
    assert "### k x theta" in grid
    assert "k 2: tokens/pass" in grid
    ladder, _ = run(home, "sweep", "--rules", "--only", "lenience", *FAST, *out)
    assert ladder.count("| lenience:l=") == 4
    rules, error = run(
        home, "compare", *PAIR, "--data", "sums.jsonl", "--ks", "1,2", "--pilot", "1", *out,
        "-a", "plain", "-a", "match", "-a", "exact", "-a", "nucleus",
    )  # fmt: skip
    assert "| match   |" in rules
    assert "exact: k " in error
    scores, _ = run(home, "eval", "gsm8k", "--data", "sums.jsonl", *FAST, *out)
    assert "| nucleus |" in scores
    page, error = run(home, "report", "records")
    assert page.strip() == str(Path("records") / "report.html")
    assert "not drawn" not in error
    text = (home / "records" / "report.html").read_text(encoding="utf-8")
    assert "nsd-local sweep --rules --only lenience" in text
    tables, _ = run(home, "report", "records", "--tables")
    assert "### Throughput" in tables
    assert "### Task gsm8k" in tables


def test_stopped_by_ctrl_c_it_goes_on_later(home: Path) -> None:
    arguments = ["bench", *PAIR, "-n", "150", "-k", "3", "--per-kind", "2", "-o", "stopped"]
    process = command(home, *arguments)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("[3/"):
            process.send_signal(signal.SIGINT)
            break
    process.communicate(timeout=600)
    assert process.returncode == 130
    done = len(read_journal(home / "stopped" / "bench.jsonl")[1])
    assert 3 <= done < 48
    _, error = run(home, *arguments)
    assert f"{done} of 48 runs are there already" in error
    assert len(read_journal(home / "stopped" / "bench.jsonl")[1]) == 48 + 1  # and the check for drift


def test_positions_can_be_asked_for_later(home: Path) -> None:
    arguments = ["bench", *FAST, "-a", "exact", "-o", "later"]
    run(home, *arguments)
    _, error = run(home, *arguments, "--positions")
    assert "all runs are there already" in error
    _, records = read_journal(home / "later" / "positions.jsonl")
    assert len(records) == 2


def test_a_comparison_without_time_for_its_pilot_says_so(home: Path) -> None:
    arms = ["-a", "plain", "-a", "exact"]
    out, error = run(home, "compare", *PAIR, *arms, "--limit", "1", "--ks", "1,2", "--time-limit", "0")
    assert out == ""
    assert "the draft lengths are not chosen yet" in error


@pytest.mark.parametrize("arguments", [["eval", "gsm8k"], ["compare"], ["sweep"]])
def test_what_judges_answers_is_looked_for_first(
    home: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "math_verify", None)
    assert main([*arguments, "--data", str(home / "sums.jsonl"), "-m", "missing.gguf"]) == 2
    error = capsys.readouterr().err
    assert "math-verify is not installed" in error
    assert ".[lab]" in error
    assert "missing.gguf" not in error


def test_a_folder_of_other_settings_is_refused(home: Path) -> None:
    run(home, "eval", "gsm8k", "--data", "sums.jsonl", *FAST, "-a", "plain", "-o", "other")
    code, error = refused(
        home, "eval", "gsm8k", "--data", "sums.jsonl", *FAST, "-a", "plain", "-o", "other", "--temperature", "1"
    )
    assert code == 2
    assert "another measurement" in error
    assert "settings.law.temperature (0.7 there, 1.0 now)" in " ".join(error.split())


def test_programs_run_only_if_allowed(home: Path) -> None:
    code, error = refused(home, "eval", "humaneval", *FAST)
    assert code == 2
    assert "--allow-code-execution" in error
    out, _ = run(home, "eval", "humaneval", *FAST, "-a", "plain", "--allow-code-execution", "-f", "jsonl")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["solved"] for row in rows if "table" not in row] == [False, False]
    assert all(row["why"] for row in rows if "table" not in row)


@pytest.mark.parametrize(
    "arguments",
    [
        ["bench", "-a", "nonsense"],
        ["bench", "-f", "xml"],
        ["bench", "--kind", "poetry"],
        ["bench", "--positions"],
        ["sweep", "--ks", "two"],
        ["eval", "chess"],
        ["eval", "gsm8k"],
        ["eval", "gsm8k", "--data", "missing.jsonl"],
        ["report", "nowhere"],
    ],
)
def test_nonsense_is_refused_before_a_model_is_loaded(home: Path, arguments: list[str]) -> None:
    pair = [] if arguments[0] == "report" else ["-m", "missing.gguf"]
    code, error = refused(home, *arguments, *pair)
    assert code == 2, error
    assert "missing.gguf" not in error


SCRIPT = Path(__file__).parents[2] / "scripts" / "lab.py"


def test_a_length_named_twice_is_tried_once() -> None:
    assert lab.numbers("4,2,4", int) == [4, 2]


def test_the_series_can_be_made_shorter() -> None:
    steps = runpy.run_path(str(SCRIPT))["steps"]
    series = steps(Namespace(tiny=False, k=4, per_kind=1, n=32, gsm8k=None))
    for name in ("bench", "sweep", "rules", "compare"):
        assert "--per-kind 1 -n 32" in " ".join(series[name])
    assert "-n" not in series["humaneval"]


def test_the_script_runs_the_series(home: Path) -> None:
    """What is there already is not run again."""
    arguments = ["--tiny", "--out", "series", "-m", "target.gguf", "-d", "draft.gguf", "--threads", "1"]
    for said in ("[16/16]", "all runs are there already"):
        done = subprocess.run(
            [sys.executable, str(SCRIPT), *arguments, "--only", "bench", "--only", "report"],
            cwd=home, env={**os.environ, HOME_VARIABLE: str(home)}, capture_output=True, encoding="utf-8", check=True,
        )  # fmt: skip
        assert said in done.stderr
        assert done.stdout.splitlines()[-1].endswith("report.html")
