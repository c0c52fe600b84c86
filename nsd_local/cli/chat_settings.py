"""`/set`: the settings of the next answers, by the names of the command line's flags."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import Field, fields, replace
from difflib import get_close_matches
from typing import Any, Union, get_args, get_origin, get_type_hints

from nsd_local.cli.options import DRAFTING, LENGTH, SAMPLING, Options
from nsd_local.errors import UsageError

SHORT = {"k": "draft-tokens", "n": "max-tokens"}
UNSET = ("default", "none", "off")
SWITCH = {"on": True, "off": False}
RULE_PARAMETERS = ("theta", "strength", "cap", "deviation")


def names() -> dict[str, Field[Any]]:
    """What can be set: the flags about drafting, sampling and length. Model and machine are chosen by loading."""
    chosen = {}
    for entry in fields(Options):
        panel = getattr(_typer_option(entry), "rich_help_panel", None)
        if panel in (DRAFTING, SAMPLING, LENGTH) and entry.name != "system":  # which has a command of its own
            chosen[entry.name.replace("_", "-")] = entry
    return chosen


def changed(options: Options, name: str, value: str) -> Options:
    """The options with one of them changed and checked; `default` brings a default back."""
    name, known = SHORT.get(name, name.replace("_", "-")), names()
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(known)}"
        raise UsageError(f"There is no setting {name!r}", "", hint)
    entry = known[name]
    unset = UNSET[:1] if bool in _kinds(entry) else UNSET
    parsed: Any = entry.default if value in unset else _parse(entry, name, value)
    new = replace(options, **{entry.name: parsed})
    try:
        new.settings()
    except UsageError:
        if name != "rule":
            raise
        # What was given to the last rule may mean nothing to this one.
        new = replace(new, theta=None, strength=None, cap=None, deviation=None)
        new.settings()
    return new


def described(options: Options) -> Iterator[str]:
    """One line per setting, with the value that holds; those that differ from the default are marked."""
    for name, entry in names().items():
        mark = " " if getattr(options, entry.name) == entry.default else "*"
        yield line(mark, name, effective(options, name), getattr(_typer_option(entry), "help", ""))


def switched(name: str, text: str) -> bool:
    """What on and off mean. Raises UsageError for another word."""
    if text not in SWITCH:
        raise UsageError(f"{name} is on or off")
    return SWITCH[text]


def line(mark: str, name: str, value: str, help_: str) -> str:
    return f"{mark} {name:<15} {value:<12} {help_}"


def effective(options: Options, name: str) -> str:
    """The value that holds for a setting, in words where it was not given."""
    entry = names()[SHORT.get(name, name.replace("_", "-"))]
    value = getattr(options, entry.name)
    if value is None and entry.name in RULE_PARAMETERS:
        rule = options.settings().rule
        if not hasattr(rule, entry.name):
            return "-"
        value = getattr(rule, entry.name)
    if value is None:
        told = getattr(_typer_option(entry), "show_default", None)
        return told if isinstance(told, str) and entry.name not in RULE_PARAMETERS else "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list):
        return ", ".join(map(repr, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _typer_option(entry: Field[Any]) -> Any:
    """What typer knows about a flag: it stands in the annotation."""
    return get_type_hints(Options, include_extras=True)[entry.name].__metadata__[0]


def _kinds(entry: Field[Any]) -> tuple[Any, ...]:
    hint = get_type_hints(Options)[entry.name]
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _parse(entry: Field[Any], name: str, text: str) -> Any:
    kinds = _kinds(entry)
    if bool in kinds:
        return switched(name, text)
    try:
        if int in kinds:
            return int(text)
        if float in kinds:
            return float(text)
    except ValueError:
        kind = "a whole number" if int in kinds else "a number"
        raise UsageError(f"{name} takes {kind}, not {text!r}") from None
    return text if str in kinds else [text.replace("\\n", "\n").replace("\\t", "\t")]  # a list of stop strings
