"""The things that a measurement compares: a rule with its parameters and the settings of its requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from nsd_local.decoding.settings import Settings
from nsd_local.errors import UsageError
from nsd_local.verification.rule import Exact, Nucleus
from nsd_local.verification.rules import parse

PLAIN, BARE = "plain", "bare"
_OWN_KEYS = ("k", "block", "budget", "exact-first", "relax")  # of the request, not of the rule


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to decode. `bare` does not answer: it evaluates as many tokens one by one, without sampling."""

    name: str
    settings: Settings

    @property
    def drafts(self) -> bool:
        return self.settings.draft_tokens != 0

    def describe(self) -> dict[str, Any]:
        """What distinguishes it, as flat JSON values."""
        settings = self.settings
        ruled = self.name not in (PLAIN, BARE)
        return {
            "arm": self.name,
            "rule": settings.rule.name if ruled else None,
            "rule_parameters": asdict(settings.rule) if ruled else {},
            "block": settings.block,
            "draft_tokens": settings.draft_tokens,
            "budget": settings.budget,
            "exact_first": settings.exact_first,
            "relax_point_mass": settings.relax_point_mass,
        }


def parse_arm(spec: str, base: Settings) -> Arm:
    """An arm from its name: `plain`, `bare`, or `RULE[:key=value,...]` as after `--rule`, where the keys may also
    be k (a number or auto), block (0: nucleus judges token by token), budget, exact-first and relax (1: the rule
    acts on point-mass drafts too).

    What it does not say is as in `base`, and so are the parameters of the rule where `base` has the same one; of
    another rule they are the defaults. Raises UsageError.
    """
    name, _, rest = spec.strip().partition(":")
    if name in (PLAIN, BARE):
        if rest:
            raise UsageError(f"The arm {name} takes no parameters, but {rest!r} was given")
        return Arm(name, replace(base, draft_tokens=0, rule=Exact(), budget=None))
    of_rule = {field.name for field in fields(parse(name))}
    own: dict[str, str] = {}
    parts: list[str] = []
    for part in filter(None, map(str.strip, rest.split(","))):
        key, _, value = map(str.strip, part.partition("="))
        if key in _OWN_KEYS and key not in of_rule:
            own[key] = value
        else:
            parts.append(part)
    if "block" in own and name != Nucleus.name:
        raise UsageError(f"The arm {spec!r} cannot be read", "block is a setting of nucleus")
    settings = _own(base, own, spec)
    rule = parse(f"{name}:{','.join(parts)}")
    if name == base.rule.name:
        named = {part.partition("=")[0].strip() for part in parts}
        rule = replace(base.rule, **{key: getattr(rule, key) for key in named})
    budget = settings.budget if rule.takes_budget or "budget" in own else None  # the common one is not meant for it
    settings = replace(settings, rule=rule, budget=budget)
    if not settings.rule.drafts:  # a way of plain decoding
        return Arm(spec.strip(), replace(settings, draft_tokens=0))
    if settings.draft_tokens == 0:
        raise UsageError(f"The arm {spec!r} drafts nothing", "its k is 0", "Leave it out, or name it plain")
    return Arm(spec.strip(), settings)


def parse_arms(specs: Sequence[str], base: Settings) -> list[Arm]:
    """Raises UsageError where two are the same."""
    arms = [parse_arm(spec, base) for spec in specs]
    names = [arm.name for arm in arms]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"The arm {twice[0]} is named twice")
    return arms


def _own(base: Settings, given: dict[str, str], spec: str) -> Settings:
    changes: dict[str, Any] = {}
    try:
        if "k" in given:
            changes["draft_tokens"] = _k(given["k"])
        if "block" in given:
            changes["block"] = bool(int(given["block"]))
        if "budget" in given:
            changes["budget"] = None if given["budget"] == "none" else float(given["budget"])
        if "exact-first" in given:
            changes["exact_first"] = int(given["exact-first"])
        if "relax" in given:
            changes["relax_point_mass"] = bool(int(given["relax"]))
    except ValueError as error:
        raise UsageError(f"The arm {spec!r} cannot be read", str(error)) from error
    return replace(base, **changes)


def _k(text: str) -> int | Literal["auto"]:
    return "auto" if text == "auto" else int(text)
