"""The rules of a grammar (GBNF), and whether one of them can begin with itself, which llama.cpp cannot follow."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Part:
    """One element of a sequence: a reference to a rule, or (None) something that takes text."""

    rule: str | None
    optional: bool = False
    copies: int = 1  # what llama.cpp multiplies repetitions of repetitions with


def left_recursion(rules: dict[str, list[list[Part]]]) -> str | None:
    """A rule that can begin with itself, or None."""
    empty = _nullable(rules)
    begins = {
        name: {rule for parts in alternatives for rule in _beginnings(parts, empty)}
        for name, alternatives in rules.items()
    }
    open_ = set(rules)
    while True:
        done = {name for name in open_ if not begins[name] & open_}
        if not done:
            break
        open_ -= done
    if not open_:
        return None
    name, seen = min(open_), set()
    while name not in seen:
        seen.add(name)
        name = min(begins[name] & open_)
    return name.partition("_")[0]


def _beginnings(parts: list[Part], empty: set[str]) -> set[str]:
    """The rules that a sequence may begin with."""
    found: set[str] = set()
    for part in parts:
        if part.rule is not None:
            found.add(part.rule)
        if not (part.optional or part.rule in empty):
            break
    return found


def _nullable(rules: dict[str, list[list[Part]]]) -> set[str]:
    """The rules that may stand for nothing."""
    empty: set[str] = set()
    while True:
        more = {
            name
            for name, alternatives in rules.items()
            if name not in empty
            and any(all(part.optional or part.rule in empty for part in parts) for parts in alternatives)
        }
        if not more:
            return empty
        empty |= more
