"""`tune`, `simulate` and `recommend` as a person runs them, on tiny models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nsd_local.catalog.home import HOME_VARIABLE
from tests import tiny
from tests.tiny import Tiny


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nsd_local", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, HOME_VARIABLE: str(home), "COLUMNS": "100"},
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("measure")
    tiny.write(home / "target.gguf", Tiny(seed=1, n_layer=4, stop_bias=-30.0))
    tiny.write(home / "draft.gguf", Tiny(seed=1, noise=0.05, stop_bias=-30.0))
    return home


@pytest.fixture(scope="module")
def tuned(home: Path) -> dict[str, object]:
    done = run(
        home, "tune", "-m", str(home / "target.gguf"), "-d", str(home / "draft.gguf"), "--ctx", "4096",
        "--sample-tokens", "8", "--requantize", "--json",
        "--costs", str(home / "costs.json"), "--rounds", str(home / "rounds.jsonl"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_tune_says_what_pays(tuned: dict[str, dict[str, object]]) -> None:
    assert str(tuned["advice"]["verdict"]).startswith("On this machine the target verifies ")
    assert set(tuned["requantized"]["expected"]) >= {""}  # type: ignore[call-overload]
    assert tuned["costs"]["curves"]


def test_doctor_shows_what_tune_found(home: Path, tuned: dict[str, dict[str, object]]) -> None:
    verdict = tuned["advice"]["verdict"]
    assert verdict in run(home, "doctor").stdout
    assert verdict in [found["verdict"] for found in json.loads(run(home, "doctor", "--json").stdout)["tuned"]]


def test_tune_prints_a_table(home: Path) -> None:
    done = run(home, "tune", "-m", str(home / "target.gguf"), "-d", "ngram", "--ctx", "1024", "--sample-tokens", "8")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["k", "tokens/pass", "tok/s", "x", "plain"]
    assert any("lookup, repeats" in line for line in lines)
    assert "there is no draft model" in done.stdout


def test_simulate_replays_what_tune_recorded(home: Path, tuned: dict[str, object]) -> None:
    files = ("--rounds", str(home / "rounds.jsonl"), "--costs", str(home / "costs.json"))
    done = run(home, "simulate", *files, "-k", "0,3,auto", "--theta", "0.85", "--json")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["k"] for row in rows] == [0, 3, "auto"]
    assert rows[0]["gain"] == pytest.approx(1.0)
    table = run(home, "simulate", *files, "--rule", "match")
    assert table.returncode == 0, table.stderr
    assert len(table.stdout.splitlines()) == 11


def test_simulate_refuses_what_it_cannot_know(home: Path, tuned: dict[str, object]) -> None:
    files = ("--rounds", str(home / "rounds.jsonl"), "--costs", str(home / "costs.json"))
    for more, told in (
        (("--rule", "topk"), "cannot be predicted from these rounds"),
        (("-k", "2,many"), "numbers up to 64 or auto"),
        (("--kind", "poetry"), "no rounds with drafts of the kind 'poetry'"),
    ):
        done = run(home, "simulate", *files, *more)
        assert done.returncode == 2
        assert told in done.stderr
    done = run(home, "simulate", "--rounds", str(home / "rounds.jsonl"), "--costs", str(home / "rounds.jsonl"))
    assert done.returncode == 2
    assert "cannot be read as JSON" in done.stderr


def test_recommend_names_pairs_that_fit_and_its_rule(home: Path) -> None:
    done = run(home, "recommend", "--memory", "16", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "qwen2.5-coder-7b+0.5b" in [row["pair"] for row in found["pairs"]]
    assert all(row["memory_gib"] <= 0.8 * 16 for row in found["pairs"])
    assert "A pair fits if" in found["rule"]
    assert "No pair" in run(home, "recommend", "--memory", "1").stdout
