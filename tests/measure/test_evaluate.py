from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nsd_local.api import Engine
from nsd_local.decoding.settings import Settings
from nsd_local.errors import Cancelled, UsageError
from nsd_local.measure.answers import Grade
from nsd_local.measure.arms import parse_arms
from nsd_local.measure.campaign import KEY, Campaign, run_all
from nsd_local.measure.confidence import mcnemar, wilson
from nsd_local.measure.evaluate import evaluate, summarise
from nsd_local.measure.journal import Journal, read_journal
from nsd_local.measure.prompts import Prompt
from nsd_local.measure.runner import Row
from nsd_local.measure.sandbox import Limits
from nsd_local.measure.tasks import Problem, task

ARMS = ["plain", "nucleus"]
PROBLEMS = [Problem(f"p{i}", f"What is {i} + {i}?", answer=str(i)) for i in range(4)]
TIMED = ("_ms", "_per_second", "test_time", "time", "reason", "rounds_end")
WORK = ("cache_n", "prompt_n")


def timeless(row: Row) -> Row:
    """A row without what a clock has measured, and without what there was to read after the arm before."""
    return {key: value for key, value in row.items() if not key.endswith(TIMED + WORK)}


def by_key(rows: list[Row]) -> list[Row]:
    return sorted(map(timeless, rows), key=lambda row: [str(row[name]) for name in KEY])


def test_a_resumed_evaluation_equals_an_uninterrupted_one(engine: Engine, short: Settings, tmp_path: Path) -> None:
    def run(name: str, **more: Any) -> list[Row]:
        with Journal(tmp_path / name, {"format": "x"}, KEY) as journal:
            evaluate(engine, task("gsm8k"), PROBLEMS, parse_arms(ARMS, short), journal, seeds=(3, 4), **more)
        return read_journal(tmp_path / name)[1]

    whole = run("whole.jsonl")
    assert len(whole) == 4 * 2 * 2
    asked = 0

    def stop_again_and_again() -> bool:
        nonlocal asked
        asked += 1
        return asked % 50 == 0

    stops = 0
    while stops < 50:
        try:
            parts = run("parts.jsonl", cancelled=stop_again_and_again)
            break
        except Cancelled:
            stops += 1
    assert stops > 1
    assert by_key(parts) == by_key(whole)


def test_the_target_reads_a_problem_once_and_answers_the_same(engine: Engine, short: Settings) -> None:
    arms = parse_arms(["plain", "exact", "nucleus"], short)
    prompts = [Prompt("p", problem.id, problem.text) for problem in PROBLEMS]
    anew, reused = (list(run_all(engine, Campaign(arms, prompts, reuse=reuse))) for reuse in (False, True))
    assert [timeless(row) for row in reused] == [timeless(row) for row in anew]
    assert [row["cache_n"] for row in anew] == [0] * len(anew)
    for i, row in enumerate(reused):
        first = i % len(arms) == 0
        assert (row["prompt_n"] == 1) == (not first)


def test_a_killed_evaluation_loses_one_problem_at_most(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """Killed without warning: every problem that was told as done is in the file, and the run can go on."""
    data = tmp_path / "data.jsonl"
    data.write_text(
        "".join(json.dumps({"id": p.id, "question": p.text * 20, "answer": p.answer}) + "\n" for p in PROBLEMS * 1)
    )
    target, draft = pair
    command = [
        sys.executable, "-m", "nsd_local", "eval", "gsm8k", "--data", str(data), "-m", str(target), "-d", str(draft),
        "-a", "exact", "-k", "2", "-n", "200", "--seeds", "8", "--threads", "1", "--ctx", "2048",
        "-o", str(tmp_path / "out"), "-f", "jsonl",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    told = 0
    for line in process.stderr:
        told += line.startswith("[")
        if told == 5:
            process.kill()
            break
    told += sum(line.startswith("[") for line in process.stderr)
    process.wait()
    _, records = read_journal(tmp_path / "out" / "eval-gsm8k.jsonl")
    assert told <= len(records) <= told + 1
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    _, resumed = read_journal(tmp_path / "out" / "eval-gsm8k.jsonl")
    assert len(resumed) == 4 * 8
    assert [timeless(row) for row in resumed[: len(records)]] == [timeless(row) for row in records]
    again = [json.loads(line) for line in finished.stdout.splitlines()]
    assert sum("table" not in row for row in again) == 32


def test_programs_are_run_and_hostile_ones_fail(engine: Engine, short: Settings) -> None:
    """What the tiny model writes is no program; the grades say so, and why."""
    problem = Problem("p", "Write f.", tests="assert f() == 1", entry_point="f", stub="def f():\n")
    rows = evaluate(engine, task("humaneval"), [problem], parse_arms(["plain"], short), limits=Limits(seconds=20))
    assert rows[0]["solved"] is False
    assert rows[0]["why"]


HOSTILE = {
    "an endless loop": "    while True: pass\n",
    "a fork bomb": "    import os\n    while True: os.fork()\n",
    "10 GB": "    return len(b'x' * (10 << 30)) and 1\n",
    "a file outside": "    open(PATH, 'w').write('x')\n    return 1\n",
    "the network": "    import socket\n    socket.create_connection(('127.0.0.1', 9))\n    return 1\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_answer_is_a_failed_problem(name: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    problem = Problem(
        "p", "Write f.", tests="assert f() == 1", entry_point="f", stub=f"PATH = {str(victim)!r}\ndef f():\n"
    )
    grade = task("humaneval").grade(problem, HOSTILE[name], Limits(seconds=3))
    assert not grade.solved
    assert grade.why
    assert not victim.exists()
    assert task("humaneval").grade(problem, "    return 1\n", Limits(seconds=60)).solved


def rows_of(arm: str, solved: list[list[bool]]) -> list[Row]:
    """solved[seed][problem]"""
    return [
        {"arm": arm, "prompt": f"p{i}", "seed": seed, "solved": value, "predicted_n": 10,
         "predicted_ms": 1000.0, "predicted_per_second": 10.0,
         "rounds": 4, "deviation_sum": 0.1, "finish_reason": "length" if i == 0 else "stop"}
        for seed, values in enumerate(solved)
        for i, value in enumerate(values)
    ]  # fmt: skip


def test_summary_counts_as_defined() -> None:
    plain = [[True, True, False, True, False]]
    other = [[True, False, True, False, False]]
    first, second = summarise([*rows_of("plain", plain), *rows_of("x", other)], ["plain", "x"])
    assert (first["solved"], first["accuracy"], first["p_value"]) == (3, 0.6, None)
    assert (first["accuracy_low"], first["accuracy_high"]) == (wilson(3, 5).low, wilson(3, 5).high)
    assert (second["better"], second["worse"]) == (1, 2)
    assert second["p_value"] == mcnemar([1, 0], [0, 1]).p_value == 1.0
    assert first["rounds_per_solved"] == pytest.approx(20 / 3)
    assert (first["total_ts"], first["mean_accepted_length"], first["cut_off"]) == (10.0, 2.5, 1)
    assert first["deviation_per_token"] == pytest.approx(0.01)


def test_several_seeds_of_a_problem_are_one_trial() -> None:
    (summary,) = summarise(rows_of("plain", [[True, False], [True, True]]), ["plain"])
    assert (summary["problems"], summary["answers"], summary["accuracy"]) == (2, 4, 0.75)
    assert summary["accuracy_high"] == wilson(1.5, 2).high


def test_pairs_share_problem_and_seed() -> None:
    """Seeds that only one of the arms has do not count."""
    plain = rows_of("plain", [[True, False], [False, True], [False, True]])
    _, other = summarise([*plain, *rows_of("x", [[True, True]])], ["plain", "x"])
    assert (other["better"], other["worse"]) == (1, 0)


def test_an_answer_that_cannot_be_judged_is_a_failed_row(engine: Engine, short: Settings, tmp_path: Path) -> None:
    def grade(problem: Problem, text: str, limits: Limits) -> Grade:
        if problem.id == "p1":
            raise UsageError("It cannot be judged")
        return Grade(True, text)

    strict = replace(task("gsm8k"), grade=grade)
    with Journal(tmp_path / "eval.jsonl", {"format": "x"}, KEY) as journal:
        (summary,) = summarise(evaluate(engine, strict, PROBLEMS, parse_arms(["plain"], short), journal), ["plain"])
        assert (summary["answers"], summary["solved"], summary["failed"]) == (4, 3, 1)
        assert [record["error"] for record in journal.records] == [None, "It cannot be judged.", None, None]


def test_a_run_that_failed_did_not_solve_its_problem(engine: Engine, short: Settings) -> None:
    long = Problem("long", "word " * 20_000, answer="1")
    rows = evaluate(engine, task("gsm8k"), [long, PROBLEMS[0]], parse_arms(["plain"], short))
    (summary,) = summarise(rows, ["plain"])
    assert (summary["answers"], summary["failed"], summary["problems"]) == (2, 1, 2)
