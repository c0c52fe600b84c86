"""JSON schemas as grammar (GBNF): every text of the grammar is valid under the schema.

The converse need not hold: the grammar writes only declared properties, in their order, and little white space. What it
cannot hold (`uniqueItems`, say) is refused by name, never dropped. JSON Schema 2020-12, and what is usual of draft 7.
"""

from __future__ import annotations

import json
from math import isinf
from typing import Any, Final, NoReturn
from urllib.parse import unquote

from nsd_local.engine.gbnf import check
from nsd_local.engine.schema.kinds import Kinds, Schema
from nsd_local.engine.schema.rules import Rules, literal, refuse
from nsd_local.errors import UsageError

_TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")
_ALL: Final = frozenset(_TYPES)
_BINDING: Final = {  # keywords that bind values of one type only
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("minLength", "maxLength", "pattern"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
}
_CHOICES: Final = ("$ref", "anyOf", "oneOf", "allOf", "const", "enum")
_REFUSED: Final = (
    *("not", "if", "then", "else"),
    *("dependentRequired", "dependentSchemas", "dependencies", "propertyNames", "patternProperties"),
    *("minProperties", "maxProperties", "unevaluatedProperties"),
    *("contains", "minContains", "maxContains", "uniqueItems", "unevaluatedItems", "additionalItems"),
    *("multipleOf", "$dynamicRef", "$recursiveRef"),
)
_MOST_REFERENCES: Final = 100  # one after the other
_MOST_DIGITS: Final = 300  # a float holds the number


def schema_to_gbnf(text: str) -> str:
    """The grammar of a JSON schema. Raises UsageError, naming the place, for what is no schema or cannot be held."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant, parse_float=_float, parse_int=_int)
        grammar = _Converter(document).grammar()
    except ValueError as error:
        raise UsageError("The JSON schema is not JSON", str(error)) from None
    except RecursionError:
        raise UsageError("The JSON schema is nested too deeply", "", "Give a flatter one") from None
    try:
        grammar.encode()
        check(grammar)
    except UnicodeEncodeError:
        raise UsageError("The JSON schema holds half a character (\\ud800 to \\udfff alone)", "", "Remove it") from None
    except UsageError as error:  # what is said of lines and columns would be of a text that the user never saw
        why = error.why.partition(": ")[2] or error.why
        raise UsageError("The JSON schema cannot be turned into a grammar", why) from None
    return grammar


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _float(digits: str) -> float:
    value = float(digits)
    if isinf(value):
        raise ValueError(f"the number {digits[:40]} is too large")
    return value


def _int(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"the number {digits[:40]}... has more than {_MOST_DIGITS} digits")
    return int(digits)


class _Converter:
    def __init__(self, document: Any) -> None:
        self._document = document
        self._rules = Rules()
        self._kinds = Kinds(self._rules, lambda schema, path: self._visit(schema, path, _ALL))
        self._references: dict[tuple[str, frozenset[str]], str] = {}

    def grammar(self) -> str:
        root = self._visit(self._document, "#", _ALL)
        if root is None:
            refuse("#", "nothing is valid under it")
        return self._rules.grammar(root)

    def _visit(self, schema: Any, path: str, within: frozenset[str]) -> str | None:
        """The rule for a schema, of values of the types `within` only; None if no value is left."""
        if schema is False:
            return None
        schema = {} if schema is True else schema
        if not isinstance(schema, dict):
            refuse(path, "a schema is expected")
        for keyword in _REFUSED:
            if schema.get(keyword, False) is not False:
                refuse(path, f"a grammar cannot hold {keyword}")
        within &= _types(schema, path)
        bound = [kind for kind, keywords in _BINDING.items() if any(word in schema for word in keywords)]
        choices = [keyword for keyword in _CHOICES if keyword in schema]
        if choices:
            return self._choice(schema, path, within, choices, bound)
        if "type" not in schema and bound:  # values of other types are valid, too, but were hardly meant
            within &= {*bound, "integer"} if "number" in bound else {*bound}
        if "number" in within:
            within -= {"integer"}
        if within == _ALL - {"integer"} and not bound and "format" not in schema:
            return "value"
        return self._rules.union([self._kinds.of_type(kind, schema, path) for kind in _TYPES if kind in within], path)

    def _choice(
        self, schema: Schema, path: str, within: frozenset[str], choices: list[str], bound: list[str]
    ) -> str | None:
        """$ref, anyOf, oneOf, allOf, const, enum: beside them only a type can be held."""
        keyword = choices[0]
        if choices == ["const", "enum"]:
            const = json.dumps(schema["const"])
            same = [value for value in _listed(schema, "enum", path) if json.dumps(value) == const]
            return self._values(same, path, within)
        if bound or len(choices) > 1:
            beside = [word for words in _BINDING.values() for word in words if word in schema]
            refuse(path, f"a grammar cannot hold {keyword} beside {[*choices[1:], *beside][0]}")
        if keyword == "$ref":
            return self._reference(schema[keyword], path, within)
        if keyword == "const":
            return self._values([schema[keyword]], path, within)
        content = _listed(schema, keyword, path)
        if keyword == "enum":
            return self._values(content, path, within)
        if keyword == "allOf" and len(content) > 1:
            refuse(path, "a grammar cannot hold allOf of several schemas")
        if keyword == "oneOf":
            self._check_apart(content, f"{path}/oneOf")
        parts = [self._visit(part, f"{path}/{keyword}/{i}", within) for i, part in enumerate(content)]
        return self._rules.union(parts, path)

    def _values(self, values: list[Any], path: str, within: frozenset[str]) -> str | None:
        fitting = [literal(value) for value in values if _type_of(value) in within]
        return self._rules.add(path, " | ".join(fitting)) if fitting else None

    def _reference(self, pointer: Any, path: str, within: frozenset[str]) -> str:
        key = (str(pointer), within)
        if key not in self._references:
            target = self._resolve(pointer, path)
            name = self._references[key] = self._rules.add(str(pointer), "")  # first: it may refer to itself
            body = self._visit(target, str(pointer), within)
            if body is None:
                refuse(path, f"nothing is valid under {pointer} here")
            self._rules.set(name, body)
        return self._references[key]

    def _resolve(self, pointer: Any, path: str) -> Any:
        if not isinstance(pointer, str) or not (pointer == "#" or pointer.startswith("#/")):
            refuse(path, f"only references within the schema (#/...) are followed, not {pointer!r}")
        place = self._document
        for step in pointer.split("/")[1:]:
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            try:
                place = place[int(name)] if isinstance(place, list) else place[name]
            except (KeyError, IndexError, ValueError, TypeError):
                refuse(path, f"there is no {pointer}")
        return place

    def _check_apart(self, alternatives: list[Any], path: str) -> None:
        """oneOf wants exactly one to match: no value may suit two of them."""
        for j, other in enumerate(alternatives):
            for i in range(j):
                if not self._apart(alternatives[i], other, path):
                    refuse(path, f"alternatives {i} and {j} may both match; anyOf would do")

    def _apart(self, one: Any, other: Any, path: str) -> bool:
        """Whether it is plain that no value is valid under both: by types, by listed values, or by such a member."""
        one, other = self._followed(one, path), self._followed(other, path)
        if one is False or other is False:
            return True
        if not isinstance(one, dict) or not isinstance(other, dict):
            return False
        known = [_known(one), _known(other)]
        if known[0] is not None and known[1] is not None:
            return not any(value in known[1] for value in known[0])
        types = [
            _types(schema, path) if values is None else {_type_of(value) for value in values}
            for schema, values in zip((one, other), known, strict=True)
        ]
        shared = types[0] & types[1]
        if shared != {"object"}:
            return not shared
        members = [schema.get("properties", {}) for schema in (one, other)]
        both = set(one.get("required", ())) & set(other.get("required", ()))
        return any(self._apart(members[0].get(name), members[1].get(name), path) for name in both)

    def _followed(self, schema: Any, path: str) -> Any:
        for _ in range(_MOST_REFERENCES):
            if not isinstance(schema, dict) or "$ref" not in schema:
                break
            schema = self._resolve(schema["$ref"], path)
        else:
            refuse(path, "its references lead in a circle")
        return schema


def _types(schema: Schema, path: str) -> frozenset[str]:
    given = schema.get("type", list(_TYPES))
    types = {given} if isinstance(given, str) else set(given) if isinstance(given, list) else {""}
    if not types <= _ALL:
        refuse(path, f"{given!r} is not a type")
    return frozenset(types | {"integer"} if "number" in types else types)


def _listed(schema: Schema, keyword: str, path: str) -> list[Any]:
    content = schema[keyword]
    if not isinstance(content, list) or not content:
        refuse(f"{path}/{keyword}", "a list is expected")
    return content


def _known(schema: Schema) -> list[Any] | None:
    """The values that `const` or `enum` list."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    return values if isinstance(values, list) else None


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    return {float: "number", str: "string", list: "array", dict: "object"}[type(value)]
