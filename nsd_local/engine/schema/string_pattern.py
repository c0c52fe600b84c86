"""Regular expressions of JSON schemas, written as grammar (GBNF) of JSON strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

Ranges = tuple[tuple[int, int], ...]  # of code points, both ends included, ascending

# What a string may hold as it is: no control characters, no surrogates, and neither of the two that JSON escapes.
_PLAIN: Final[Ranges] = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E), (0x80, 0xD7FF), (0xE000, 0x10FFFF))
_ESCAPED: Final = {ord('"'): r"\"", ord("\\"): r"\\", 8: r"\b", 9: r"\t", 10: r"\n", 12: r"\f", 13: r"\r"}
_ALL: Final[Ranges] = ((0, 0x10FFFF),)
_CLASSES: Final[dict[str, Ranges]] = {
    "d": ((48, 57),),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
    "s": ((9, 13), (32, 32), (0xA0, 0xA0)),
}
_CONTROLS: Final = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "0": 0}
_HEX: Final = {"x": 2, "u": 4}
_SYNTAX: Final = frozenset("\\^$.|?*+()[]{}/-")


def pattern(expression: str, any_character: str, fail: Callable[[str], NoReturn]) -> str:
    """The strings that match an expression (ECMA 262), without the quotes around them.

    As the standard has it, a pattern may match anywhere in a string unless it is anchored: `any_character` is the rule
    for what stands around it. `fail` is called, with the reason, for what no grammar can express.
    """
    reader = _Pattern(expression, fail)
    before = "" if reader.accept("^") else f"{any_character}*"
    body, alternatives = reader.alternatives()
    after = "" if reader.accept("$") else f"{any_character}*"
    reader.end()
    if alternatives > 1 and not (before and after):
        fail("an anchor belongs to one alternative only: put all of them into parentheses")
    return " ".join(part for part in (before, f"({body})" if body else '""', after) if part)


def plain_character() -> str:
    """One character of a JSON string as it is, or escaped."""
    hexadecimal = '"u" ([0-9a-cA-CefEF] [0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2})'  # no half of a surrogate pair
    return f'{_bracket(_PLAIN)} | "\\\\" (["\\\\/bfnrt] | {hexadecimal})'


class _Pattern:
    def __init__(self, text: str, fail: Callable[[str], NoReturn]) -> None:
        self._text, self._fail, self._at = text, fail, 0

    @property
    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def accept(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def end(self) -> None:
        if self._next:
            self._fail(f"{self._next!r} at position {self._at + 1} of the pattern cannot be expressed in a grammar")

    def alternatives(self) -> tuple[str, int]:
        found = [self._sequence()]
        while self.accept("|"):
            found.append(self._sequence())
        return " | ".join(part or '""' for part in found) if any(found) else "", len(found)

    def _sequence(self) -> str:
        parts = []
        while self._next and self._next not in "|)$^":
            parts.append(self._atom() + self._repetition())
        return " ".join(parts)

    def _atom(self) -> str:
        if self.accept("("):
            if self.accept("?") and not self.accept(":"):
                self._fail("the pattern looks around or names a group, which a grammar cannot")
            body, _ = self.alternatives()
            if not self.accept(")"):
                self._fail("the pattern has an anchor inside, or a ( without its )")
            return f"({body})" if body else '("")'
        if self.accept("["):
            return self._written(self._class())
        if self.accept("."):
            return self._written(_without(_ALL, ((10, 10), (13, 13), (0x2028, 0x2029))))
        if self.accept("\\"):
            return self._written(self._escape())
        if self._next in "*+?{":
            self._fail(f"the pattern repeats nothing at position {self._at + 1}")
        return self._written(self._literal())

    def _literal(self) -> Ranges:
        code = ord(self._next)
        self._at += 1
        return ((code, code),)

    def _repetition(self) -> str:
        sign = self._next
        if sign in ("*", "+", "?"):
            self._at += 1
        elif sign == "{":
            end = self._text.find("}", self._at)
            sign = self._text[self._at : end + 1]
            bounds = sign[1:-1].split(",")
            if end < 0 or len(bounds) > 2 or not all(part.isdecimal() for part in bounds if part) or not bounds[0]:
                self._fail(f"the pattern's repetition {sign!r} is not understood")
            self._at = end + 1
        else:
            return ""
        self.accept("?")  # lazy: the same strings
        return sign

    def _class(self) -> Ranges:
        inverted = self.accept("^")
        found: list[tuple[int, int]] = []
        while not self.accept("]"):
            if not self._next:
                self._fail("the pattern has a [ without its ]")
            part = self._member()
            if self._next == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", "") and _single(part):
                self._at += 1
                last = self._member()
                if not _single(last) or last[0][0] < part[0][0]:
                    self._fail("the pattern has a range whose ends are in the wrong order")
                part = ((part[0][0], last[0][0]),)
            found.extend(part)
        return _without(_ALL, tuple(found)) if inverted else _merged(found)

    def _member(self) -> Ranges:
        return self._escape() if self.accept("\\") else self._literal()

    def _escape(self) -> Ranges:
        kind = self._next
        self._at += 1
        if kind.lower() in _CLASSES:
            known = _CLASSES[kind.lower()]
            return known if kind.islower() else _without(_ALL, known)
        if kind in _HEX:
            digits = self._text[self._at : self._at + _HEX[kind]]
            self._at += _HEX[kind]
            try:
                code = int(digits, 16)
            except ValueError:
                self._fail(f"the pattern's escape \\{kind}{digits} is not understood")
            return ((code, code),)
        code = _CONTROLS.get(kind, ord(kind) if kind in _SYNTAX and kind else -1)
        if code < 0:
            self._fail(f"the pattern's \\{kind} cannot be expressed in a grammar")
        return ((code, code),)

    def _written(self, ranges: Ranges) -> str:
        """One of these characters, as JSON writes it."""
        plain = _within(ranges, _PLAIN)
        forms = [_bracket(plain)] if plain else []
        for code, written in _ESCAPED.items():
            if any(first <= code <= last for first, last in ranges):
                forms.append('"' + written.replace("\\", "\\\\").replace('"', '\\"') + '"')
        if not forms:
            self._fail("the pattern asks for a character that JSON cannot write plainly")
        return forms[0] if len(forms) == 1 else f"({' | '.join(forms)})"


def _bracket(ranges: Ranges) -> str:
    def character(code: int) -> str:
        return chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\U{code:08X}"

    parts = (character(a) if a == b else f"{character(a)}-{character(b)}" for a, b in ranges)
    return f"[{''.join(parts)}]"


def _single(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


def _merged(ranges: list[tuple[int, int]]) -> Ranges:
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def _within(ranges: Ranges, bounds: Ranges) -> Ranges:
    pairs = [(max(a, c), min(b, d)) for a, b in _merged(list(ranges)) for c, d in bounds]
    return tuple(pair for pair in pairs if pair[0] <= pair[1])


def _without(ranges: Ranges, taken: Ranges) -> Ranges:
    gaps, start = [], 0
    for first, last in _merged(list(taken)):
        if first > start:
            gaps.append((start, first - 1))
        start = last + 1
    if start <= 0x10FFFF:
        gaps.append((start, 0x10FFFF))
    return _within(ranges, tuple(gaps))
