"""Is this answer to a mathematical question right? Judged by math-verify, which is needed only here."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nsd_local.errors import UsageError
from nsd_local.measure.runner import Row, Run

PATIENCE_S = 5  # for reading one answer; a strange formula may keep sympy busy for ever
_THOUSANDS = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d+)?")
MISSING = 'Install the lab extra: pip install -e ".[lab]" in a clone'


@dataclass(frozen=True, slots=True)
class Grade:
    """What an answer was judged to be."""

    solved: bool
    extracted: str  # what was taken for the answer
    why: str = ""  # what is wrong with it


def check_judge(answers: Iterable[str | None]) -> None:
    """Raises UsageError where there are answers to compare with and math-verify is not installed."""
    if any(answers):
        _library()


def grade_math(text: str, answer: str) -> Grade:
    """Compares what `text` gives as its answer, in a box or else the last number or formula, with the right one.

    Raises UsageError where math-verify is not installed.
    """
    library = _library()
    patience = PATIENCE_S if threading.current_thread() is threading.main_thread() else None  # it works by signals
    right = library.parse(f"\\boxed{{{_final(answer)}}}", parsing_timeout=patience)
    if not right:
        raise UsageError(f"The right answer {answer!r} cannot be read", "math-verify finds no number or formula in it")
    given = library.parse(text, parsing_timeout=patience)
    if not given:
        return Grade(False, "", "no answer was found in the text")
    solved = bool(library.verify(right, given, timeout_seconds=patience))
    return Grade(solved, str(given[-1])[:200], "" if solved else f"not {_final(answer)}"[:200])


def answer_score(run: Run) -> Row:
    """The column `score` of a campaign's rows, 1 for a right answer: for prompts that have one."""
    if run.prompt.answer is None or run.result is None:
        return {"score": None}
    return {"score": float(grade_math(run.result.text, run.prompt.answer).solved)}


def _final(answer: str) -> str:
    """The number behind the #### of GSM8K's own files, without thousands separators; else the answer itself."""
    final = answer.rpartition("####")[2].strip().strip("$")
    return final.replace(",", "") if _THOUSANDS.fullmatch(final) else final


def _library() -> Any:
    try:
        import math_verify
    except ImportError as error:
        raise UsageError("Mathematical answers cannot be judged", "math-verify is not installed", MISSING) from error
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)  # it tells of every formula it cannot read
    return math_verify
