"""The grammar that a JSON schema becomes, while it is written."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from nsd_local.engine.schema import number_range, string_pattern
from nsd_local.errors import UsageError

_BASE: Final = {
    "space": '(" " | "\\n" [ \\t]{0,32})?',
    "char": string_pattern.plain_character(),
    "string": '"\\"" char* "\\""',
    "integer": number_range.INTEGER,
    "number": number_range.NUMBER,
    "boolean": '"true" | "false"',
    "null": '"null"',
    "object": '"{" space (member ("," space member)* space)? "}"',
    "member": 'string ":" space value',
    "array": '"[" space (value ("," space value)* space)? "]"',
    "value": "object | array | string | number | boolean | null",
}

_LONGEST_PATH: Final = 200  # characters of a place that a message shows


class Rules:
    """Named rules. The types of JSON have one each, and `value` stands for any."""

    def __init__(self) -> None:
        self._rules = dict(_BASE)

    def add(self, path: str, body: str) -> str:
        """A rule named after its place in the schema; returns the name."""
        name = re.sub(r"[^A-Za-z0-9]+", "-", f"at{path}").rstrip("-")
        while name in self._rules:
            name += "-"
        self._rules[name] = body
        return name

    def set(self, name: str, body: str) -> None:
        self._rules[name] = body

    def union(self, rules: list[str | None], path: str) -> str | None:
        """The rule for any of these; None if there is none."""
        distinct = list(dict.fromkeys(rule for rule in rules if rule))
        if len(distinct) < 2:
            return distinct[0] if distinct else None
        return self.add(path, " | ".join(distinct))

    def grammar(self, root: str) -> str:
        return "\n".join([f"root ::= {root}", *(f"{name} ::= {body}" for name, body in self._rules.items())])


def refuse(path: str, why: str) -> NoReturn:
    """Raises the UsageError for a place (a JSON pointer) in the schema."""
    raise UsageError(
        "The JSON schema cannot be turned into a grammar",
        f"{path if len(path) <= _LONGEST_PATH else path[:_LONGEST_PATH] + '...'}: {why}",
        "Leave that out, or give a grammar of your own (--grammar)",
    )


def times(least: int, most: int | None) -> str:
    return f"{{{least},{'' if most is None else most}}}"


def literal(value: Any) -> str:
    """A JSON value as a grammar quotes it."""
    text = json.dumps(value, ensure_ascii=False)
    return '"' + "".join(f"\\{c}" if c in '"\\' else c for c in text) + '"'
