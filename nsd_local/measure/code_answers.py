"""Turning a model's answer to a programming task into a program that tests itself."""

from __future__ import annotations

import re

from nsd_local.measure.answers import Grade
from nsd_local.measure.sandbox import Limits, run_program

_PYTHON = ("", "python", "py", "python3")
_BLOCK = re.compile(r"```[ \t]*([\w+-]*)[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)


def extract_code(text: str, entry_point: str = "") -> str:
    """The code of an answer: the last fenced block that defines `entry_point`; else the longest Python or unnamed
    block; else the text itself."""
    blocks: list[str] = [code for language, code in _BLOCK.findall(text) if language.lower() in _PYTHON]
    if entry_point:
        defining = [code for code in blocks if _defines(code, entry_point)]
        if defining:
            return defining[-1]
    return max(blocks, key=len) if blocks else text


def complete(stub: str, code: str, entry_point: str) -> str:
    """A program from a task's beginning (imports, helpers, the head of the function) and the code that answers it:
    the whole function, or only what follows its head."""
    if not _defines(code, entry_point):
        return stub + code
    head = re.search(rf"^(?:async\s+)?def\s+{re.escape(entry_point)}\b", stub, re.MULTILINE)
    return f"{stub[: head.start()] if head else ''}\n{code}"


def grade_code(program: str, code: str, limits: Limits) -> Grade:
    """Runs a program in the sandbox: it is right if it reaches its end."""
    outcome = run_program(program, limits)
    return Grade(outcome.passed, code, outcome.reason)


def _defines(code: str, name: str) -> bool:
    return re.search(rf"^(?:async\s+)?def\s+{re.escape(name)}\b", code, re.MULTILINE) is not None
