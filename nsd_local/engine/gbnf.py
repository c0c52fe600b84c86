"""Checks a grammar in GBNF before llama.cpp reads it.

llama.cpp prints what is wrong with a grammar to stderr and returns nothing, and some wrong grammars (`"a"{3,2}`, hidden
left recursion) never let it return. So the text is read here first, by the same rules, and an error names the place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NoReturn

from nsd_local.engine.gbnf_rules import Part, left_recursion
from nsd_local.errors import UsageError

ROOT: Final = "root"
MOST_REPETITIONS: Final = 2000  # MAX_REPETITION_THRESHOLD; llama.cpp silently takes a larger maximum for "no limit"
_MOST_NESTING: Final = 200  # llama.cpp recurses into groups
_HEX: Final = {"x": 2, "u": 4, "U": 8}
_NAME: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")
_DIGITS: Final = frozenset("0123456789")


@dataclass(slots=True)
class Grammar:
    """The rules, groups among them (their names end in _ and a number), and where each name is first referred to."""

    rules: dict[str, list[list[Part]]] = field(default_factory=dict)
    referred: dict[str, int] = field(default_factory=dict)


def check(text: str, is_token: Callable[[str], bool] | None = None) -> None:
    """Raises UsageError, naming line and column, for a text that is no grammar llama.cpp can use.

    A grammar may name tokens, as in `<|im_start|>`: `is_token` says whether a text is one, where a model is at hand.
    """
    reader = _Reader(text, is_token or (lambda _: True))
    grammar = reader.grammar()
    for name, place in grammar.referred.items():
        if name not in grammar.rules:
            reader.fail(f"there is no rule named {name!r}", place)
    if ROOT not in grammar.rules:
        reader.fail(f"there is no rule named {ROOT!r}, where a text begins", 0)
    cycle = left_recursion(grammar.rules)
    if cycle:
        reader.fail(f"the rule {cycle!r} may begin with itself (left recursion)", grammar.referred.get(cycle, 0))


class _Reader:
    """Reads a text from front to back, as llama.cpp's parser does."""

    def __init__(self, text: str, is_token: Callable[[str], bool]) -> None:
        self._text, self._is_token = text, is_token
        self._at = 0
        self._depth = 0
        self._symbols: set[str] = set()
        self._generated = 0  # rules that llama.cpp makes for groups and repetitions
        self._grammar = Grammar()

    def fail(self, why: str, at: int | None = None) -> NoReturn:
        at = self._at if at is None else at
        line = self._text.count("\n", 0, at) + 1
        column = at - self._text.rfind("\n", 0, at)
        raise UsageError(
            "The grammar cannot be used", f"line {line}, column {column}: {why}", "See llama.cpp's grammars/README.md"
        )

    def grammar(self) -> Grammar:
        zero = self._text.find("\0")
        if zero >= 0:
            self.fail("there is a NUL character", zero)
        self._space(newlines=True)
        while self._next:
            self._rule()
        return self._grammar

    @property
    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    @property
    def _found(self) -> str:
        return repr(self._next) if self._next else "the end"

    def _accept(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            self.fail(f"{text} is expected, not {self._found}")

    def _space(self, newlines: bool) -> None:
        skipped = " \t\r\n" if newlines else " \t"
        while self._next and self._next in skipped + "#":
            if self._next == "#":
                while self._next and self._next not in "\r\n":
                    self._at += 1
            else:
                self._at += 1

    def _while(self, kind: frozenset[str], what: str) -> str:
        start = self._at
        while self._next in kind:
            self._at += 1
        if self._at == start:
            self.fail(f"{what} is expected, not {self._found}")
        return self._text[start : self._at]

    def _rule(self) -> None:
        name = self._while(_NAME, "the name of a rule")
        self._symbols.add(name)
        self._space(newlines=False)
        self._expect("::=")
        self._space(newlines=True)
        self._alternatives(name, name, nested=False)
        if self._next and not (self._accept("\r\n") or self._accept("\r") or self._accept("\n")):
            self.fail(f"{self._next!r} cannot follow here")
        self._space(newlines=True)

    def _alternatives(self, key: str, rule: str, nested: bool) -> None:
        found = [self._sequence(rule, nested)]
        while self._accept("|"):
            self._space(newlines=True)
            found.append(self._sequence(rule, nested))
        self._grammar.rules[key] = found

    def _sequence(self, rule: str, nested: bool) -> list[Part]:
        parts: list[Part] = []
        repeatable = False
        while self._next:
            if self._next in "*+?{":
                repeatable = self._repeat(parts, repeatable, nested)
            else:
                part = self._part(rule)
                if part is None:
                    break
                repeatable = part.copies > 0
                if repeatable:
                    parts.append(part)
            self._space(newlines=nested)
        return parts

    def _part(self, rule: str) -> Part | None:
        """The next element; copies 0 for one that stands for nothing. None where the sequence ends."""
        if self._accept('"'):
            return Part(None, copies=self._characters('"'))
        if self._accept("["):
            self._accept("^")
            return Part(None, copies=self._characters("]"))
        if self._next in "<!":
            self._token()
            return Part(None)
        if self._next in _NAME:
            place = self._at
            name = self._while(_NAME, "the name of a rule")
            self._symbols.add(name)
            self._grammar.referred.setdefault(name, place)
            return Part(name)
        if self._accept("("):
            return self._group(rule)
        return Part(None) if self._accept(".") else None

    def _characters(self, end: str) -> int:
        """Reads up to the closing character; 1 if there was anything, else 0."""
        start = self._at
        while self._next != end:
            self._character()
            if end == "]" and self._next == "-" and self._text[self._at + 1 : self._at + 2] != "]":
                self._at += 1
                self._character()
        self._at += 1
        return int(self._at - 1 > start)

    def _character(self) -> None:
        if not self._next:
            self.fail("the grammar ends inside quotes or brackets")
        if not self._accept("\\"):
            self._at += 1
            return
        kind = self._next
        if kind in _HEX:
            digits = self._text[self._at + 1 : self._at + 1 + _HEX[kind]]
            if len(digits) < _HEX[kind] or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
                self.fail(f"\\{kind} takes {_HEX[kind]} hexadecimal digits")
            self._at += 1 + _HEX[kind]
        elif kind and kind in 'trn\\"[]-':
            self._at += 1
        else:
            self.fail(f"\\{kind} means nothing in a grammar")

    def _token(self) -> None:
        self._accept("!")
        self._expect("<")
        if self._accept("["):
            self._while(_DIGITS, "a token id")
            self._expect("]>")
            return
        start, end = self._at - 1, self._text.find(">", self._at)
        if end < 0:
            self.fail("> is expected after a token")
        if not self._is_token(self._text[start : end + 1]):
            self.fail(f"{self._text[start : end + 1]} is not one token of this model", start)
        self._at = end + 1

    def _group(self, rule: str) -> Part:
        before = len(self._symbols) + self._generated
        key = f"{rule}_{before}"
        self._generated += 1
        self._depth += 1
        if self._depth > _MOST_NESTING:
            self.fail(f"groups are nested more than {_MOST_NESTING} deep")
        self._space(newlines=True)
        self._alternatives(key, rule, nested=True)
        self._expect(")")
        self._depth -= 1
        return Part(key, copies=max(1, len(self._symbols) + self._generated - before))

    def _repeat(self, parts: list[Part], repeatable: bool, nested: bool) -> bool:
        """Reads a repetition of the last part; False where it leaves nothing that could be repeated again."""
        place = self._at
        least, most = self._bounds(nested)
        if not repeatable:
            self.fail("there is nothing to repeat", place)
        if most is not None and most < least:
            self.fail(f"at least {least} and at most {most} is impossible", place)
        part = parts[-1]
        part.copies *= most or least or 1
        if max(least, part.copies) > MOST_REPETITIONS:
            self.fail(f"llama.cpp repeats things at most {MOST_REPETITIONS:,} times, in all", place)
        self._generated += 1 if most is None else most - least
        if least == 0:
            part.optional = True
        if most == 0:
            parts.pop()
        return most != 0

    def _bounds(self, newlines: bool) -> tuple[int, int | None]:
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        sign = self._next
        self._at += 1
        if sign in simple:
            return simple[sign]
        self._space(newlines)
        least = most = int(self._while(_DIGITS, "a number"))
        self._space(newlines)
        limited = True
        if self._accept(","):
            self._space(newlines)
            limited = self._next in _DIGITS
            most = int(self._while(_DIGITS, "a number")) if limited else 0
            self._space(newlines)
        self._expect("}")
        return least, most if limited and most <= MOST_REPETITIONS else None
