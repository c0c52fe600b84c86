"""What a JSON schema says of each type of value, as grammar: objects, arrays, strings, numbers."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor, isfinite
from typing import Any, Final

from nsd_local.engine.gbnf import MOST_REPETITIONS
from nsd_local.engine.schema import number_range, string_pattern
from nsd_local.engine.schema.rules import Rules, literal, refuse, times

Schema = dict[str, Any]

_DATE: Final = '[0-9]{4} "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | "1" [0-9] | "2" [0-8])'  # a day of every month
_CLOCK: Final = '("0" [0-9] | "1" [0-9] | "2" [0-3]) ":" [0-5] [0-9]'
_TIME: Final = f'{_CLOCK} ":" [0-5] [0-9] ("." [0-9]{{1,6}})? ("Z" | [-+] {_CLOCK})'
_FORMATS: Final = {  # the others only describe
    "date": _DATE,
    "time": _TIME,
    "date-time": f'{_DATE} "T" {_TIME}',
    "uuid": '[0-9a-f]{8} "-" [0-9a-f]{4} "-" [0-9a-f]{4} "-" [0-9a-f]{4} "-" [0-9a-f]{12}',
}


class Kinds:
    """Each method returns the name of a rule, or None where no value is possible."""

    def __init__(self, rules: Rules, visit: Callable[[Any, str], str | None]) -> None:
        self._rules, self._visit = rules, visit

    def of_type(self, kind: str, schema: Schema, path: str) -> str | None:
        if kind == "object":
            return self._object(schema, path)
        if kind == "array":
            return self._array(schema, path)
        if kind == "string":
            return self._string(schema, path)
        if kind in ("number", "integer"):
            return self._number(kind, schema, path)
        return kind

    def _object(self, schema: Schema, path: str) -> str | None:
        properties, required = schema.get("properties", {}), schema.get("required", [])
        others = schema.get("additionalProperties", True)
        if not isinstance(properties, dict) or not isinstance(required, list):
            refuse(path, "properties must be an object, and required a list")
        known = {**properties, **{name: others for name in required if name not in properties}}
        if not known:
            return self._dictionary(others, path)
        members = []
        for name, part in known.items():
            place = f"{path}/properties/{name}"
            value = self._visit(part, place)
            if value is not None:
                member = self._rules.add(f"{place}/member", f'{literal(name)} ":" space {value}')
                members.append((member, name in required))
            elif name in required:
                return None
        return self._record(members, path)

    def _dictionary(self, values: Any, path: str) -> str | None:
        """Any names, with values of one schema."""
        value = self._visit(values, f"{path}/additionalProperties")
        if value == "value":
            return "object"
        if value is None:
            return self._rules.add(path, '"{" space "}"')
        member = self._rules.add(f"{path}/member", f'string ":" space {value}')
        return self._rules.add(path, f'"{{" space ({member} ("," space {member})* space)? "}}"')

    def _record(self, members: list[tuple[str, bool]], path: str) -> str:
        """Members (rule, required) in their order. Two chains of rules keep the commas right: what the object may
        begin with, counted from each member on, and what may follow once something is written."""
        first = after = ""
        for member, required in reversed(members):
            begin = f"{member} {after}".rstrip()
            first = self._rules.add(f"{path}/first", begin if required or not first else f"{begin} | {first}")
            follow = f'"," space {member}' if required else f'("," space {member})?'
            after = self._rules.add(f"{path}/after", f"{follow} {after}".rstrip())
        inside = f"{first} space" if any(required for _, required in members) else f"({first} space)?"
        return self._rules.add(path, f'"{{" space {inside if first else ""} "}}"')

    def _array(self, schema: Schema, path: str) -> str | None:
        items, prefix = schema.get("items", True), schema.get("prefixItems", [])
        if isinstance(items, list):  # draft 7 writes it so
            items, prefix = True, items
        if not isinstance(prefix, list):
            refuse(path, "prefixItems must be a list")
        least, most = _count(schema, "minItems", path) or 0, _count(schema, "maxItems", path)
        lead: list[str] = []
        for i, part in enumerate(prefix[:most]):
            rule = self._visit(part, f"{path}/prefixItems/{i}")
            if rule is None:
                break
            lead.append(rule)
        need, room = max(0, least - len(lead)), None if most is None else most - len(lead)
        complete = len(lead) == len(prefix)
        item = self._visit(items, f"{path}/items") if complete and room != 0 and (need or not prefix) else None
        if (need and item is None) or (room is not None and room < need):
            return None
        body = ' "," space '.join(lead)
        if item is not None:
            body = self._run(body, item, need, room, path)
        return self._rules.add(path, f'"[" space {body and body + " space"} "]"')

    def _run(self, lead: str, item: str, need: int, room: int | None, path: str) -> str:
        """`need` to `room` items, after those of `lead` if there are any."""
        more = self._rules.add(f"{path}/more", f'"," space {item}')
        if lead:
            return f"{lead} {more}{times(need, room)}"
        rest = times(max(0, need - 1), None if room is None else room - 1)
        run = self._rules.add(f"{path}/run", f"{item} {more}{rest}")
        return run if need else f"{run}?"

    def _string(self, schema: Schema, path: str) -> str | None:
        least, most = _count(schema, "minLength", path), _count(schema, "maxLength", path)
        limited = least is not None or most is not None
        expression, form = schema.get("pattern"), _FORMATS.get(str(schema.get("format")))
        if [expression is not None, form is not None, limited].count(True) > 1:
            refuse(path, "a grammar holds one of pattern, format and length only")
        if expression is not None:
            body = string_pattern.pattern(str(expression), "char", lambda why: refuse(f"{path}/pattern", why))
        elif form is not None:
            body = form
        elif limited:
            if most is not None and most < (least or 0):
                return None
            body = f"char{times(least or 0, most)}"
        else:
            return "string"
        return self._rules.add(path, f'"\\"" {body} "\\""')

    def _number(self, kind: str, schema: Schema, path: str) -> str | None:
        low, above = _bound(schema, "minimum", "exclusiveMinimum", path, max)
        high, below = _bound(schema, "maximum", "exclusiveMaximum", path, min)
        if low is None and high is None:
            return kind
        if kind == "integer":
            least = None if low is None else floor(low) + 1 if above else ceil(low)
            most = None if high is None else ceil(high) - 1 if below else floor(high)
            body = number_range.integers(least, most)
        elif all(bound is None or bound == int(bound) for bound in (low, high)):
            whole = [None if bound is None else int(bound) for bound in (low, high)]
            body = number_range.numbers(whole[0], whole[1], above, below)
        else:
            refuse(path, "a grammar holds numbers within whole bounds only")
        return self._rules.add(path, body) if body else None


def _bound(schema: Schema, closed: str, open_: str, path: str, tighter: Any) -> tuple[float | None, bool]:
    """(bound or None, whether it is excluded itself)."""
    values = {name: schema[name] for name in (closed, open_) if schema.get(name) is not None}
    excluded = values.get(open_)
    if isinstance(excluded, bool):  # draft 4 writes it so
        del values[open_]
        if excluded and closed in values:
            values[open_] = values.pop(closed)
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            refuse(path, f"{name} must be a number, not {value!r}")
    if not values:
        return None, False
    bound = tighter(values.values())
    return bound, values.get(open_) == bound


def _count(schema: Schema, name: str, path: str) -> int | None:
    value = schema.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        refuse(path, f"{name} must be a whole number, not {value!r}")
    if value > MOST_REPETITIONS:
        refuse(path, f"a grammar cannot count up to {name} {value:,}, only to {MOST_REPETITIONS:,}")
    return value
