"""JSON schemas as grammars: whatever a grammar can write is valid, and what it cannot hold is refused by name."""

from __future__ import annotations

import json
import random
from decimal import Decimal

import jsonschema
import numpy as np
import pytest

from nsd_local.engine.grammar import Grammar
from nsd_local.engine.model import Model
from nsd_local.engine.schema import number_range
from nsd_local.engine.schema.converter import schema_to_gbnf
from nsd_local.errors import UsageError

PERSON = {
    "type": "object",
    "title": "Person",
    "properties": {
        "name": {"type": "string", "maxLength": 9},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["a", 'b"q\\', "\n"]}, "minItems": 1, "maxItems": 3},
    },
    "required": ["name", "tags"],
    "additionalProperties": False,
}
LINKED = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
            "required": ["v", "next"],
        }
    },
    "$ref": "#/$defs/node",
}
SHAPES = {
    "oneOf": [
        {"type": "object", "properties": {"k": {"const": "a"}, "x": {"type": "integer"}}, "required": ["k", "x"]},
        {
            "type": "object",
            "properties": {"k": {"const": "b"}, "y": {"type": "string", "pattern": r"^[A-Z]{2}\d{3}$"}},
            "required": ["k", "y"],
        },
    ]
}
ESCAPED = {
    "type": "object",
    "properties": {
        'we ird/~na"me\\': {"type": "integer"},
        "é": {"type": "boolean"},
        "a": {"$ref": '#/properties/we%20ird~1~0na"me\\'},
    },
    "required": ["é", "a"],
}
SCHEMAS = [
    True,
    {},
    {"type": "object"},
    {"type": "array"},
    {"type": ["string", "null"], "maxLength": 5},
    {"type": "integer", "minimum": -5, "exclusiveMaximum": 120},
    {"type": "integer", "minimum": 0.5, "maximum": 2.5},
    {"type": "number", "minimum": 0, "maximum": 1},
    {"type": "number", "exclusiveMinimum": 0},
    {"type": "number", "minimum": -2, "exclusiveMaximum": 0},
    PERSON,
    LINKED,
    SHAPES,
    ESCAPED,
    {"type": "object", "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}}},
    {
        "type": "object",
        "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}, "c": {"const": {"x": [1, "y"]}}},
        "required": ["b"],
    },
    {"type": "object", "additionalProperties": {"type": "integer"}},
    {"type": "object", "properties": {}, "additionalProperties": False},
    {"type": "object", "required": ["x"], "additionalProperties": {"type": "boolean"}},
    {"type": "object", "properties": {"self": {"$ref": "#"}}},
    {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string", "format": "date"}], "items": False},
    {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "boolean"}, "minItems": 3, "maxItems": 4},
    {"type": "array", "items": {"type": "number"}, "maxItems": 0},
    {"type": "array", "items": {"type": "integer"}, "minItems": 2},
    {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "uuid"},
    {"type": "string", "minLength": 3},
    {"type": "string", "minLength": 2, "maxLength": 4},
    {"type": "string", "pattern": r'^(foo|ba[rz]\.)+[^"a-z]?\s*$'},
    {"type": "string", "pattern": r"^\w{1,3}@\w+\.(com|de)$"},
    {"type": "string", "pattern": r'^.{3}"\\\t$'},
    {"type": "string", "pattern": r"^[^\D2-8]{2,}?x??$"},
    {"enum": [1, "a", None, True, 1.5, [1, {"a": "b"}]]},
    {"enum": ["a", 1, 2.0], "type": "integer"},
    {"const": "a", "enum": ["a", "b"], "type": "string"},
    {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer"}], "type": ["string"]},
    {"allOf": [{"$ref": "#/$defs/n"}], "default": 3, "$defs": {"n": {"type": "integer"}}},
    {"minLength": 2},
    {"type": ["integer", "array"], "items": {"type": "null"}, "minimum": 3, "maximum": 4},
]


@pytest.fixture(scope="module")
def model(tiny_target):
    with Model.load(tiny_target) as model:
        yield model


@pytest.fixture(scope="module")
def texts(model):
    """Tokens that write ASCII, or the two bytes of é: what is not UTF-8 says nothing about a grammar."""
    pieces = {token: model.piece(token) for token in range(model.n_vocab) if token not in model.eog}
    return np.array([token for token, piece in pieces.items() if piece.isascii() or piece in (b"\xc3", b"\xa9")])


def may_end(model, grammar):
    return bool(grammar.allows(np.array(sorted(model.eog)))[0])


def wander(model, texts, grammar, rng):
    """A text of the grammar, by chance; None where it gets long."""
    text = b""
    with grammar.clone() as place:
        for _ in range(300):
            if may_end(model, place) and rng.random() < 0.5:
                return text
            allowed = texts[place.allows(texts)]
            closing = [token for token in allowed if model.piece(int(token)) in (b'"', b"}", b"]", b",", b":")]
            if not len(allowed):
                assert may_end(model, place), text
                return text
            token = int(rng.choice(closing if closing and rng.random() < 0.5 else list(allowed)))
            place.accept(token)
            text += model.piece(token)
    return None


def writes(model, gbnf, text):
    """Whether the grammar has this text, byte by byte."""
    with Grammar.compile(model, gbnf) as grammar:
        for byte in text.encode():
            if not grammar.allows(np.array([byte]))[0]:
                return False
            grammar.accept(byte)
        return may_end(model, grammar)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: json.dumps(schema)[:60])
def test_what_the_grammar_writes_is_valid(model, texts, schema):
    rng = random.Random(5)
    check = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker(["date", "uuid"]))
    written = 0
    with Grammar.compile(model, schema_to_gbnf(json.dumps(schema))) as grammar:
        for _ in range(30):
            text = wander(model, texts, grammar, rng)
            if text is not None:
                check.validate(json.loads(text.decode()))
                written += 1
    assert written >= 10


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (PERSON, '{"name": "Ada", "age": 36, "tags": ["a"]}'),
        (PERSON, '{\n  "name": "Ada",\n  "tags": [\n    "a",\n    "b\\"q\\\\"\n  ]\n}'),
        ({"type": "object"}, '{"a": {"b": [1, -2.5e-3, true, null, "\\u00e9\\n"]}, "c": ""}'),
        ({"type": "number", "minimum": -1, "maximum": 1}, "-0.25"),
        ({"type": "string", "pattern": "b+"}, '"abbc"'),
        ({"type": "string", "format": "email"}, '"ada at home"'),  # a format that only describes
    ],
)
def test_usual_json_can_be_written(model, schema, text):
    assert writes(model, schema_to_gbnf(json.dumps(schema)), text)


@pytest.mark.parametrize(
    "text", ['"a\nb"', '"a\x07"', r'"\ud800"', r'"\q"', "01", "-", "1.", "+1", ".5", "tru", "{,}", '{"a":1,}', "[1,]"]
)
def test_what_is_no_json_cannot_be_written(model, text):
    assert not writes(model, schema_to_gbnf("{}"), text)


@pytest.mark.parametrize("seed", range(4))
def test_ranges_of_integers_are_exact(model, seed):
    rng = random.Random(seed)
    for _ in range(15):
        width = rng.choice([30, 2_000, 10**6])
        low, high = sorted(rng.randint(-width, width) for _ in range(2))
        low, high = rng.choice([(low, high), (low, high), (None, high), (low, None)])
        body = number_range.integers(low, high)
        near = {edge + step for edge in (low, high, 0) if edge is not None for step in (-10, -1, 0, 1, 10)}
        for value in near | {rng.randint(-width, width) for _ in range(5)}:
            inside = (low is None or value >= low) and (high is None or value <= high)
            assert writes(model, f"root ::= {body}", str(value)) == inside, (low, high, value)


@pytest.mark.parametrize("seed", range(4))
def test_ranges_of_numbers_are_exact(model, seed):
    rng = random.Random(seed)
    for _ in range(15):
        low, high = sorted(rng.randint(-30, 30) for _ in range(2))
        open_low, open_high = rng.random() < 0.5, rng.random() < 0.5
        if low == high and (open_low or open_high):
            assert number_range.numbers(low, high, open_low, open_high) == ""
            continue
        low, high = rng.choice([(low, high), (low, high), (None, high), (low, None)])
        body = number_range.numbers(low, high, open_low, open_high)
        for edge in (low, high, 0):
            for step in ("-1", "-0.5", "-0.0001", "0", "0.0001", "0.5", "1"):
                value = Decimal(edge or 0) + Decimal(step)
                above = low is None or value > low or (value == low and not open_low)
                below = high is None or value < high or (value == high and not open_high)
                text = str(value.normalize()) if value else "0"
                assert writes(model, f"root ::= {body}", f"{Decimal(text):f}") == (above and below), (
                    low,
                    high,
                    open_low,
                    open_high,
                    text,
                )


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "array", "uniqueItems": True}, "#: a grammar cannot hold uniqueItems"),
        ({"properties": {"a": {"multipleOf": 3}}}, "#/properties/a: a grammar cannot hold multipleOf"),
        ({"not": {}}, "cannot hold not"),
        ({"anyOf": [{}], "minLength": 3}, "anyOf beside minLength"),
        ({"allOf": [{"type": "object"}, {"type": "object"}]}, "allOf of several schemas"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "alternatives 0 and 1 may both match"),
        ({"oneOf": [{"enum": [1, 2]}, {"enum": [2, 3]}]}, "alternatives 0 and 1 may both match"),
        ({"type": "strin"}, "'strin' is not a type"),
        ({"type": "string", "pattern": "^a(?=b)$"}, "#/pattern: the pattern looks around"),
        ({"type": "string", "pattern": r"^\bx$"}, r"the pattern's \b cannot be expressed"),
        ({"type": "string", "pattern": "^a|b$"}, "put all of them into parentheses"),
        ({"type": "string", "pattern": "^a$", "maxLength": 3}, "one of pattern, format and length only"),
        ({"type": "string", "maxLength": 5000}, "a grammar cannot count up to maxLength 5,000"),
        ({"type": "string", "maxLength": "x"}, "maxLength must be a whole number"),
        ({"type": "number", "minimum": 0.5}, "within whole bounds only"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "#: nothing is valid under it"),
        ({"type": "string", "const": 3}, "nothing is valid under it"),
        ({"type": "object", "required": ["x"], "additionalProperties": False}, "nothing is valid under it"),
        (False, "nothing is valid under it"),
        ({"$ref": "https://example.org/schema"}, "only references within the schema"),
        ({"$ref": "#/$defs/none"}, "there is no #/$defs/none"),
        ({"properties": {"a": 3}}, "#/properties/a: a schema is expected"),
    ],
)
def test_what_cannot_be_held_is_refused_with_its_place(schema, why):
    with pytest.raises(UsageError) as caught:
        schema_to_gbnf(json.dumps(schema))
    assert why in caught.value.why


def test_what_is_no_json_is_no_schema():
    with pytest.raises(UsageError, match="not JSON"):
        schema_to_gbnf("{")
    with pytest.raises(UsageError, match="nested too deeply"):
        schema_to_gbnf(500 * '{"items":' + "{}" + 500 * "}")


def test_a_schema_that_is_nothing_but_itself_is_refused(model):
    with pytest.raises(UsageError, match="begin with itself"):
        Grammar.compile(model, schema_to_gbnf('{"$ref": "#"}'))
