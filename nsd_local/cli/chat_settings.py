"""`/set`: the settings of the next answers, by the names of the command line's flags."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, replace
from difflib import get_close_matches
from typing import Any, Union, get_args, get_origin, get_type_hints

from nsd_local.cli.options import Options
from nsd_local.errors import UsageError

# The flags that choose files, machine and prompt cannot change while a model is loaded.
NAMES = (
    "rule",
    "theta",
    "strength",
    "cap",
    "budget",
    "exact-first",
    "draft-tokens",
    "temperature",
    "top-k",
    "top-p",
    "min-p",
    "repeat-penalty",
    "seed",
    "max-tokens",
    "stop",
)
SHORT = {"k": "draft-tokens", "n": "max-tokens"}
UNSET = ("default", "none", "off")


def changed(options: Options, name: str, value: str) -> Options:
    """The options with one of them changed and checked; `default` brings a default back."""
    name = SHORT.get(name, name.replace("_", "-"))
    if name not in NAMES:
        near = get_close_matches(name, NAMES, n=1)
        raise UsageError(
            f"There is no setting {name!r}",
            "",
            f"Did you mean {near[0]}?" if near else f"There are: {', '.join(NAMES)}",
        )
    entry = next(entry for entry in fields(Options) if _flag(entry) == name)
    new = replace(options, **{entry.name: _default(entry) if value in UNSET else _parse(entry, name, value)})
    try:
        new.settings()
    except UsageError:
        if name != "rule":
            raise
        new = replace(new, theta=None, strength=None, cap=None)  # they were given to the last rule
        new.settings()
    return new


def described(options: Options) -> Iterator[str]:
    """One line per setting; those that differ from the default are marked."""
    for entry in fields(Options):
        if _flag(entry) in NAMES:
            value = getattr(options, entry.name)
            mark = " " if value == _default(entry) else "*"
            yield f"{mark} {_flag(entry):<15} {'default' if value is None else _shown(value)}"


def _flag(entry: Field[Any]) -> str:
    return entry.name.replace("_", "-")


def _default(entry: Field[Any]) -> Any:
    return None if entry.default is MISSING else entry.default


def _parse(entry: Field[Any], name: str, text: str) -> Any:
    hint = get_type_hints(Options)[entry.name]
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    try:
        if int in kinds:
            return int(text)
        if float in kinds:
            return float(text)
    except ValueError:
        kind = "a whole number" if int in kinds else "a number"
        raise UsageError(f"{name} takes {kind}, not {text!r}") from None
    return text if str in kinds else [text.replace("\\n", "\n").replace("\\t", "\t")]  # a list of stop strings


def _shown(value: Any) -> str:
    return ", ".join(map(repr, value)) if isinstance(value, list | tuple) else str(value)
