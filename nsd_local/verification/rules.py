"""Every rule by name: for the command line, for listings, for comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields
from typing import Any

from nsd_local.errors import UsageError
from nsd_local.verification.auto_strength import AutoStrength
from nsd_local.verification.block import Block, NucleusBlock
from nsd_local.verification.cactus import Cactus
from nsd_local.verification.cascade import Cascade
from nsd_local.verification.greedy import Asd, Mars
from nsd_local.verification.lenience import Lenience
from nsd_local.verification.plain import TargetTopP
from nsd_local.verification.rule import Exact, Match, Nucleus, Rule
from nsd_local.verification.shortlist import Relaxed, TopK
from nsd_local.verification.threshold import Threshold
from nsd_local.verification.typical import Typical

_ALL: tuple[type[Rule], ...] = (
    Exact, Block, Match, Nucleus, NucleusBlock, AutoStrength, Lenience, Typical, TopK, Threshold, Cactus, Cascade,
    Relaxed, Asd, Mars, TargetTopP,
)  # fmt: skip

RULES: dict[str, type[Rule]] = {rule.name: rule for rule in _ALL}


def parameters(rule: type[Rule]) -> dict[str, Any]:
    """The parameters of a rule and their defaults."""
    return {field.name: field.default for field in _fields(rule)}


def make(name: str, values: Mapping[str, Any] | None = None) -> Rule:
    """The rule of that name; parameters that are not given keep their defaults. Texts are read as numbers.

    Raises UsageError for an unknown rule or parameter, and for a value out of range.
    """
    if name not in RULES:
        raise UsageError(f"there is no rule {name!r}", do=f"Choose one of {', '.join(RULES)}")
    rule = RULES[name]
    known = {field.name: field for field in _fields(rule)}
    given = {}
    for key, value in (values or {}).items():
        if key not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise UsageError(f"the rule {name} has no parameter {key!r}", has)
        given[key] = _number(name, key, value, whole=isinstance(known[key].default, int))
    return rule(**given)


def parse(text: str) -> Rule:
    """A rule written as "name" or "name:key=value,key=value", e.g. "lenience:l=0.7"."""
    name, _, rest = text.partition(":")
    values: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in rest.split(","))):
        key, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"the rule parameter {item!r} is not of the form key=value")
        values[key.strip()] = value.strip()
    return make(name.strip(), values)


def describe(rule: Rule) -> str:
    """The inverse of `parse`, naming only what differs from the defaults."""
    changed = {
        field.name: getattr(rule, field.name)
        for field in _fields(type(rule))
        if getattr(rule, field.name) != field.default
    }
    return rule.name + (":" + ",".join(f"{key}={value:g}" for key, value in changed.items()) if changed else "")


def _fields(rule: type[Rule]) -> tuple[Field[Any], ...]:
    return fields(rule)


def _number(name: str, key: str, value: Any, whole: bool) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return int(value) if whole else float(value)
    except ValueError:
        kind = "a whole number" if whole else "a number"
        raise UsageError(f"{key} of the rule {name} must be {kind}, not {value!r}") from None
