from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nsd_local.errors import UsageError
from nsd_local.measure.answers import grade_math
from nsd_local.measure.code_answers import complete, extract_code
from nsd_local.measure.sandbox import Limits
from nsd_local.measure.tasks import TASKS, task

SHARED = Path(os.environ.get("NSD_SHARED", Path(__file__).parents[3] / "shared")) / "data"
LIMITS = Limits(seconds=60)


def write(path: Path, *entries: Any) -> Path:
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "answer", "solved"),
    [
        ("2 + 2 = 4, so \\boxed{4}", "4", True),
        ("First 3 then \\boxed{5}.", "3", False),
        ("So she makes $18 per day.", "18", True),
        ("That is 70,000 in all.", "70000", True),
        ("\\boxed{70000}", "70,000", True),
        ("It took 5 + 3 = 8 of them.\n#### 8", "Some reasoning with 5 and 3.\n#### 8", True),
        ("\\boxed{\\dfrac{14}{3}}", "\\frac{14}{3}", True),
        ("\\boxed{4.67}", "\\frac{14}{3}", False),
        ("\\boxed{(3, \\pi/2)}", "\\left( 3, \\frac{\\pi}{2} \\right)", True),
        ("\\boxed{-2, 1}", "-2,1", True),
        ("I do not know.", "7", False),
        ("", "7", False),
    ],
)
def test_mathematical_answers(text: str, answer: str, solved: bool) -> None:
    grade = grade_math(text, answer)
    assert grade.solved == solved, grade
    assert bool(grade.why) != solved


def test_code_is_found_in_an_answer() -> None:
    first, second = "def f(x):\n    return 1\n", "def f(x):\n    return 2\n"
    answer = f"Some words.\n```python\n{first}```\nBetter:\n```\n{second}```\n```bash\nrun a b c d e f g h i\n```"
    assert extract_code(answer, "f") == second
    assert extract_code("```python\nx = 1\n```\n```py\nx = 1\ny = 2\n```") == "x = 1\ny = 2\n"
    assert extract_code("```python\ndef f(): pass") == "def f(): pass"  # cut off
    assert extract_code("    return x + 1") == "    return x + 1"


def test_a_program_is_completed_from_the_head_or_the_whole() -> None:
    stub = "import math\n\ndef helper(): return 1\n\ndef f(x):\n    '''Doc.'''\n"
    assert complete(stub, "    return 2\n", "f") == stub + "    return 2\n"
    whole = complete(stub, "def f(x):\n    return helper()\n", "f")
    names: dict[str, Any] = {}
    exec(whole, names)
    assert names["f"](0) == 1


def test_humaneval_judges_its_own_solutions() -> None:
    humaneval = task("humaneval")
    assert humaneval.default_data is not None
    lines = gzip.decompress(humaneval.default_data().read_bytes()).decode().splitlines()
    solutions = {entry["task_id"]: entry["canonical_solution"] for entry in map(json.loads, lines)}
    problems = humaneval.read(None)
    assert len(problems) == 164
    for problem in problems[::12]:
        body = solutions[problem.id]
        for answer in (body, f"Sure:\n```python\n{problem.stub}{body}```\nThis works because …"):
            grade = humaneval.grade(problem, answer, LIMITS)
            assert grade.solved, (problem.id, grade.why)
        wrong = humaneval.grade(problem, "    return None\n", LIMITS)
        assert not wrong.solved
        assert wrong.why


def test_mbpp_runs_its_tests(tmp_path: Path) -> None:
    mbpp = task("mbpp")
    entry = {
        "id": "mbpp/1",
        "question": "Write halve.",
        "tests": ["assert halve(math.pi) < 2"],
        "test_imports": ["import math"],
    }
    (problem,) = mbpp.read(write(tmp_path / "mbpp.jsonl", entry))
    assert "assert halve" in problem.text
    assert mbpp.grade(problem, "```python\ndef halve(x): return x / 2\n```", LIMITS).solved
    assert mbpp.grade(problem, "def halve(x): return x", LIMITS).why.startswith("AssertionError")
    assert mbpp.grade(problem, "I cannot.", LIMITS).why.startswith("SyntaxError")


def test_original_field_names_are_read_too(tmp_path: Path) -> None:
    path = write(tmp_path / "math.jsonl", {"problem": "1+1?", "answer": "2", "unique_id": "x"})
    (problem,) = task("math500").read(path)
    assert (problem.id, problem.answer) == ("math500/1", "2")
    assert problem.text.startswith("1+1?")
    path = write(tmp_path / "mbpp.jsonl", {"task_id": 3, "text": "Write f.", "test_list": ["assert f()"]})
    (problem,) = task("mbpp").read(path)
    assert (problem.id, problem.tests) == ("3", "assert f()")


@pytest.mark.parametrize(
    "content", ["", "no json\n", '{"answer": "1"}\n', '{"id": "a", "question": "?", "answer": "1"}\n' * 2, "[1]\n"]
)
def test_bad_files_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=r"bad\.jsonl"):
        task("gsm8k").read(path)


@pytest.mark.parametrize("damaged", [lambda data: data[:-9], lambda data: data[:10] + b"\xff" * 9, lambda data: b"x"])
def test_a_damaged_archive_is_refused(tmp_path: Path, damaged: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "bad.jsonl.gz"
    path.write_bytes(damaged(gzip.compress(b'{"question": "?", "answer": "1"}\n')))
    with pytest.raises(UsageError, match=r"bad\.jsonl\.gz cannot be read"):
        task("gsm8k").read(path)


def test_only_line_feeds_end_a_line(tmp_path: Path) -> None:
    path = tmp_path / "math.jsonl"
    path.write_text('{"question": "one\u2028two", "answer": "1"}\n', encoding="utf-8")
    (problem,) = task("gsm8k").read(path)
    assert problem.text.startswith("one\u2028two")


def test_unknown_tasks_and_missing_data() -> None:
    with pytest.raises(UsageError, match="gsm8k, math500"):
        task("chess")
    with pytest.raises(UsageError, match="--data"):
        task("mbpp").read(None)


@pytest.mark.parametrize("name", ["gsm8k", "math500", "aime25"])
def test_public_answers_are_right_by_their_own_judgement(name: str) -> None:
    path = SHARED / f"{name}.jsonl"
    if not path.is_file():
        pytest.skip(f"the public test set {name} does not lie beside this checkout (NSD_SHARED names its folder)")
    for problem in TASKS[name].read(path)[:60]:
        assert grade_math(f"After 3 steps: \\boxed{{{problem.answer}}}", problem.answer).solved, problem
