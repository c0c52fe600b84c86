"""The scripts that measure this project's promises, run on tiny models; what they check, on made-up rows."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nsd_local.catalog.home import HOME_VARIABLE
from nsd_local.decoding.records import Round, Times, Token
from nsd_local.decoding.records_io import Recording
from nsd_local.measure import speed_check
from nsd_local.measure.prompts import repeating_prompts
from tests import tiny
from tests.tiny import Tiny

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    tiny.write(folder / "target.gguf", Tiny(seed=1, n_layer=3, stop_bias=-30.0))
    tiny.write(folder / "draft.gguf", Tiny(seed=1, noise=0.05, stop_bias=-30.0))
    return folder


def run(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / script), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, HOME_VARIABLE: str(folder / "home")},
        cwd=folder,
        timeout=600,
        check=False,
    )


def pair(folder: Path) -> tuple[str, ...]:
    return "-m", str(folder / "target.gguf"), "-d", str(folder / "draft.gguf"), "--threads", "1"


def test_overhead_reports_every_promise(folder: Path) -> None:
    done = run(folder, "bench_overhead.py", *pair(folder), "--tokens", "12", "--repeats", "2", "--json", "o.json")
    assert done.returncode in (0, 1), done.stderr  # on models this small, the loop is all there is
    report = json.loads((folder / "o.json").read_text())
    assert [one["name"].split(" /")[0] for one in report["results"]] == [
        "plain decoding",
        "drafted token",
        "`other`",
        "`other`",
    ]
    assert all(one["value"] > 0 for one in report["results"])
    assert report["setup"]["cpu_info"] in done.stdout


def test_speed_runs_every_arm_and_tells_every_promise(folder: Path) -> None:
    arms = "plain;nucleus:k=auto;exact:k=auto;nucleus:k=2;nucleus:k=7;exact:k=3;match:k=2"
    small = ("--kinds", "code,chat", "--tokens", "8", "--arms", arms, "--out", "o")
    done = run(folder, "bench_speed.py", "pays", *pair(folder), *small)
    assert done.returncode in (0, 1), done.stderr
    assert "Error" not in done.stderr, done.stderr
    checks = json.loads((folder / "o" / "speed-pays.json").read_text())["checks"]
    assert [check["what"] for check in checks] == [
        "nucleus:k=auto / plain on code and edit, together",
        "nucleus:k=auto / plain on code and edit, median",
        "nucleus:k=auto / plain on open text, together",
        "nucleus:k=auto / plain on open text, median",
        "kinds where nucleus:k=auto is within 5 % of the best fixed k",
        "exact:k=auto / plain on code and edit, together",
        "exact:k=auto / plain on code and edit, median",
        "exact:k=auto / plain on open text, together",
        "exact:k=auto / plain on open text, median",
        "kinds where exact:k=auto is within 5 % of the best fixed k",
        "nucleus:k=auto / match:k=2 on open text, together",
        "nucleus:k=auto / match:k=2 on open text, median",
    ]
    again = run(folder, "bench_speed.py", "pays", *pair(folder), *small)
    assert "all runs are there already" in again.stderr
    rounds = folder / "o" / "speed-pays.rounds.jsonl"
    costs = folder / "costs.json"
    costs.write_text('{"curves": [{"context": 0, "verify": {"1": 0.1, "2": 0.11, "3": 0.2}, "draft": {"1": 0.01}}]}')
    replay = run_command(folder, "simulate", "--rounds", str(rounds), "--costs", str(costs), "-a", "nucleus:k=2")
    assert replay.returncode == 0, replay.stderr


def test_what_simulate_predicts_is_measured(folder: Path) -> None:
    small = ("--kinds", "code,chat", "--tokens", "24", "--out", "s")
    done = run(folder, "bench_speed.py", "simulate", *pair(folder), *small)
    assert done.returncode in (0, 1), done.stderr
    assert "Error" not in done.stderr, done.stderr
    checks = json.loads((folder / "s" / "speed-simulate.json").read_text())["checks"]
    assert [check["what"] for check in checks] == [f"predicted / measured, nucleus:block=0,k={k}" for k in (2, 4, 7)]


def run_command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nsd_local", *arguments], capture_output=True, text=True, timeout=600, check=False
    )


def test_lookup_is_measured_on_texts_that_repeat(folder: Path) -> None:
    done = run(folder, "bench_speed.py", "lookup", "-m", str(folder / "target.gguf"), "--tokens", "6", "--out", "l")
    assert done.returncode in (0, 1), done.stderr
    assert "Error" not in done.stderr, done.stderr
    assert "nucleus:k=auto / plain on repeat" in done.stdout
    assert len(repeating_prompts()) >= 5


def test_a_used_engine_is_compared_with_a_new_one(folder: Path) -> None:
    done = run(folder, "bench_steady.py", *pair(folder), "--requests", "20", "--tokens", "8", "--repeats", "2")
    assert done.returncode in (0, 1), done.stderr
    assert "Error" not in done.stderr, done.stderr
    assert "memory after 20 requests" in done.stdout
    assert "speed after 20 requests" in done.stdout


def test_a_target_of_higher_precision_is_made_once(folder: Path) -> None:
    first = run(folder, "make_f16_target.py", "--model", str(folder / "target.gguf"), "--out", str(folder / "f16.gguf"))
    assert first.returncode == 0, first.stderr
    assert first.stdout.strip() == str(folder / "f16.gguf")
    written = (folder / "f16.gguf").stat().st_mtime_ns
    again = run(folder, "make_f16_target.py", "--model", str(folder / "target.gguf"), "--out", str(folder / "f16.gguf"))
    assert again.returncode == 0
    assert (folder / "f16.gguf").stat().st_mtime_ns == written
    wrong = run(folder, "make_f16_target.py", "--model", str(folder / "nothing.gguf"))
    assert wrong.returncode == 3


def rows(speeds: dict[str, float], kinds: tuple[str, ...] = ("code", "chat")) -> list[dict[str, Any]]:
    return [
        {
            "arm": arm,
            "prompt_kind": kind,
            "prompt": kind,
            "seed": 0,
            "repeat": repeat,
            "predicted_n": 12,
            "predicted_ms": 12e3 / speed,
            "predicted_per_second": speed,
        }
        for arm, speed in speeds.items()
        for kind in kinds
        for repeat in range(3)
    ]


def test_promises_are_judged_by_paired_ratios() -> None:
    speeds = {"plain": 10.0, "nucleus:k=auto": 21.0, "exact:k=auto": 18.0, "nucleus:k=4": 20.0, "match:k=3": 15.0}
    found = {check.what: check for check in speed_check.checks_where_drafting_pays(rows(speeds))}
    assert found["nucleus:k=auto / plain on code and edit, median"].kept
    assert found["nucleus:k=auto / plain on open text, median"].value == pytest.approx(2.1)
    assert not found["exact:k=auto / plain on code and edit, median"].kept
    assert found["kinds where nucleus:k=auto is within 5 % of the best fixed k"] == speed_check.Check(
        "kinds where nucleus:k=auto is within 5 % of the best fixed k", 2, 2
    )
    slow = rows(speeds | {"nucleus:k=7": 30.0, "nucleus:block=0,k=auto": 99.0}, ("code",)) + rows(speeds, ("chat",))
    assert speed_check.near_best(slow, "nucleus:k=auto", ["code", "chat"]) == {"code": False, "chat": True}
    assert found["nucleus:k=auto / match:k=3 on open text, median"].kept
    assert speed_check.Check("x", 1.05, 0.9, 1.1).kept
    assert not speed_check.Check("x", 1.2, 0.9, 1.1).kept
    slower = rows({"plain": 10.0, "nucleus:k=auto": 9.6})
    assert not any(check.kept for check in speed_check.checks_where_it_may_not(slower))


def test_a_group_is_counted_as_one_text_too() -> None:
    """Two kinds at 10 and 40 against 10 and 20: their ratios are 1 and 2, but all tokens took 1.25 s against 1.5 s."""
    quick = rows({"plain": 10.0, "exact:k=auto": 10.0}, ("code",)) + rows(
        {"plain": 20.0, "exact:k=auto": 40.0}, ("edit",)
    )
    assert speed_check.gain(quick, "exact:k=auto", "plain", ["code", "edit"]) == pytest.approx(1.5)
    assert speed_check.together(quick, "exact:k=auto", "plain", ["code", "edit"]) == pytest.approx(1.2)
    assert math.isnan(speed_check.together(quick, "exact:k=auto", "match", ["code"]))
    assert math.isnan(speed_check.together(quick, "match", "plain", ["code"]))


def test_nothing_is_promised_of_an_arm_that_did_not_run() -> None:
    measured = speed_check.checks_where_drafting_pays(rows({"plain": 10.0, "nucleus:k=2": 20.0}))
    assert all(math.isnan(check.value) for check in measured)  # the script leaves these out


def recorded(arm: str, k: int, source: str, verify: float, draft: float) -> Recording:
    token = Token(1, "", "plain", 0.5, None, 1, None, 0.0, 0)
    times = Times(draft, verify, accept=0.001 + 0.002 * k)
    one = Round(0, 10, k, "", source, (1,) * k, (token,) * (k + 1), k, (), (), (), None, None, times)
    return Recording({"arm": arm}, (one,) * speed_check.ENOUGH)


def test_a_simulation_is_judged_by_the_costs_of_its_own_run() -> None:
    plain, drafting = recorded("plain", 0, "", 0.1, 0.0), recorded("nucleus:k=2", 2, "model", 0.15, 0.04)
    costs = speed_check.costs_of_run([plain, drafting])
    assert costs is not None
    assert costs.round(0, 10) == pytest.approx(0.101)
    assert costs.round(2, 10) == pytest.approx(0.15 + 0.04 + 0.001 + 2 * 0.002)
    assert speed_check.costs_of_run([plain]) is None
    assert speed_check.costs_of_run([plain, recorded("nucleus:k=2", 2, "ngram", 0.15, 0.0)]) is None
