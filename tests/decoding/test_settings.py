"""What a request may choose: every other value is refused where the settings are made, in a sentence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nsd_local.decoding.settings import Settings
from nsd_local.engine.schema.converter import schema_to_gbnf
from nsd_local.errors import UsageError
from nsd_local.sampling.law import MOST_TEMPERATURE, Law
from nsd_local.sampling.penalties import Penalties
from nsd_local.sampling.shape import Scratch, Shape
from nsd_local.verification.block import NucleusBlock
from nsd_local.verification.plain import TargetTopP
from nsd_local.verification.rule import Exact, Nucleus
from nsd_local.verification.rules import RULES, parameters

INF, NAN = float("inf"), float("nan")
WHOLE = (2.5, True, "8", NAN, [1])
NUMBER = (True, "0.5", NAN, None, 1j)


def refused(type_: type, **fields: Any) -> str:
    with pytest.raises(UsageError) as caught:
        type_(**fields)
    return str(caught.value)


@pytest.mark.parametrize(
    ("type_", "field", "wrong"),
    [
        (Law, "temperature", (*NUMBER, 1e300, INF, 10**400, -1)),
        (Law, "top_k", (*WHOLE, -1)),
        (Law, "top_p", (*NUMBER, 0.0)),
        (Law, "min_p", (*NUMBER, 1.5)),
        (Penalties, "repeat", (*NUMBER, 1e-45, 1e39, 0.0)),
        (Penalties, "frequency", (*NUMBER, 1e39)),
        (Penalties, "presence", (*NUMBER, -INF)),
        (Penalties, "last_n", (*WHOLE, -2)),
        (Nucleus, "theta", NUMBER),
        (Nucleus, "cap", ("1", NAN, -1.0)),
        (Settings, "law", (None, Nucleus())),
        (Settings, "rule", ("exact", None)),
        (Settings, "block", (None, 1, "on")),
        (Settings, "draft_tokens", (*WHOLE, 65, -1, None)),
        (Settings, "seed", (1.5, True, "1", -1)),
        (Settings, "max_tokens", (2.5, True, "1", 0)),
        (Settings, "exact_first", (*WHOLE, -1)),
        (Settings, "budget", (NAN, "1", -0.5)),
        (Settings, "stop", ("ab", ("",), (1,), 5, ("\ud800",), ("ok", "a\udc80b"))),
        (Settings, "logit_bias", (((1.5, 2.0),), ((1, NAN),), ((1, INF),), ((-1, 2.0),), ((1,),), 3, ("ab",))),
        (Settings, "grammar", (5, 'root ::= "\ud800"')),
        (Settings, "json_schema", (5, {"type": "object"}, '{"const": "\ud800"}')),
    ],
)
def test_what_makes_no_sense_is_refused_in_the_constructor(type_: type, field: str, wrong: tuple[Any, ...]) -> None:
    for value in wrong:
        refused(type_, **{field: value})


@pytest.mark.parametrize("name", RULES)
def test_no_rule_takes_texts_or_booleans_for_numbers(name: str) -> None:
    for field in parameters(RULES[name]):
        for value in ("1", True, NAN):
            assert field in refused(RULES[name], **{field: value}).lower()


def test_numpys_numbers_count_and_become_plain_ones() -> None:
    law = Law(temperature=np.float32(0.5), top_k=np.int64(3))
    settings = Settings(law, seed=np.int32(4), draft_tokens=np.int64(2), logit_bias=[(np.int64(1), np.float32(-INF))])
    assert (type(law.top_k), type(law.temperature), type(settings.seed)) == (int, float, int)
    assert settings.logit_bias == ((1, -INF),)
    assert settings == replace(settings)


def test_the_largest_temperature_gives_a_uniform_law() -> None:
    shape = Shape(100, Scratch(100))
    shape.take(np.linspace(-9, 9, 100, dtype=np.float32), Law(temperature=MOST_TEMPERATURE))
    assert shape.probability(0) == pytest.approx(0.01, rel=1e-3)


def test_a_rule_that_cannot_keep_a_budget_takes_none() -> None:
    assert "takes no budget" in refused(Settings, rule=TargetTopP(), budget=1.0)
    Settings(rule=TargetTopP())
    Settings(rule=Nucleus(), budget=1.0)


def test_nucleus_judges_rounds_as_a_whole_unless_asked_otherwise() -> None:
    assert Settings().verified_by == NucleusBlock()
    assert Settings(rule=Nucleus(0.8, 0.5, 0.1)).verified_by == NucleusBlock(0.8, 0.5, 0.1)
    assert Settings(rule=Nucleus(0.8), block=False).verified_by == Nucleus(0.8)
    for other in (Exact(), NucleusBlock(0.8)):
        assert Settings(rule=other).verified_by == Settings(rule=other, block=False).verified_by == other


@pytest.mark.parametrize(
    "strict",
    [
        {"rule": Nucleus(theta=0.0)},
        {"rule": Nucleus(strength=0)},
        {"rule": Nucleus(cap=0.0)},
        {"budget": 0},
        {"grammar": 'root ::= "a"'},
        {"json_schema": "{}"},
    ],
)
def test_a_nucleus_that_may_not_relax_judges_token_by_token_as_exact(strict: dict[str, Any]) -> None:
    settings = Settings(**strict)
    assert settings.verified_by == settings.rule


@pytest.mark.parametrize("depth", [1_500, 5_000, 100_000])
@pytest.mark.parametrize(
    ("before", "after"), [('{"items":', "}"), ('{"properties":{"a":', "}}"), ('{"const":[', "]}"), ("[", "]")]
)
def test_a_schema_nested_too_deeply_is_refused(depth: int, before: str, after: str) -> None:
    if before == '{"const":[':
        text = '{"const":' + "[" * depth + "]" * depth + "}"
    else:
        text = before * depth + "{}" + after * depth
    assert "JSON schema" in refused(Settings, json_schema=text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"const": NaN}', "NaN is not a JSON number"),
        ('{"enum": [1, -Infinity]}', "-Infinity is not a JSON number"),
        ('{"const": 1e999}', "too large"),
        ('{"type": "integer", "minimum": 1' + "0" * 400 + "}", "digits"),
        ('{"const": "\\ud800"}', "half a character"),
        ('{"properties": {"\\udfff": true}}', "half a character"),
    ],
)
def test_a_schema_of_what_json_does_not_have_is_refused(text: str, why: str) -> None:
    message = refused(Settings, json_schema=text)
    assert why in message
    assert "The grammar" not in message


def test_a_whole_character_may_be_escaped_in_halves() -> None:
    assert "\U0001f600" in schema_to_gbnf('{"const": "\\ud83d\\ude00"}')
