from __future__ import annotations

from dataclasses import replace

import pytest

from nsd_local.decoding.settings import Settings
from nsd_local.errors import UsageError
from nsd_local.measure.arms import parse_arm, parse_arms
from nsd_local.verification.rule import Exact, Nucleus
from nsd_local.verification.rules import RULES

BASE = replace(Settings(), rule=Nucleus(theta=0.8), draft_tokens=5, budget=3.0, seed=7)


def test_plain_drafts_nothing() -> None:
    arm = parse_arm("plain", BASE)
    assert not arm.drafts
    assert arm.settings.draft_tokens == 0
    assert arm.describe()["rule"] is None


def test_a_bare_name_of_the_base_rule_keeps_its_parameters() -> None:
    assert parse_arm("nucleus", BASE).settings == BASE
    assert parse_arm("nucleus:theta=0.95", BASE).settings.rule == Nucleus(theta=0.95)
    assert parse_arm("exact", BASE).settings == replace(BASE, rule=Exact())


def test_settings_of_the_request() -> None:
    settings = parse_arm("nucleus:k=7,strength=0.5,budget=none,exact-first=0,relax=1", BASE).settings
    assert settings == replace(
        BASE, rule=Nucleus(strength=0.5), draft_tokens=7, budget=None, exact_first=0, relax_point_mass=True
    )
    assert parse_arm("exact:k=auto", BASE).settings.draft_tokens == "auto"


def test_a_parameter_of_the_rule_wins_over_a_setting_of_the_same_name() -> None:
    settings = parse_arm("asd:budget=2", BASE).settings
    assert settings.budget == 3.0
    assert settings.rule.budget == 2.0


@pytest.mark.parametrize("name", RULES)
def test_every_rule_can_be_an_arm(name: str) -> None:
    arm = parse_arm(name, BASE)
    assert arm.settings.rule.name == name
    assert arm.drafts == RULES[name].drafts


@pytest.mark.parametrize(
    "spec", ["", "nonsense", "plain:k=2", "exact:k=0", "nucleus:theta=2", "nucleus:k=x", "exact:theta=0.9"]
)
def test_nonsense_is_refused(spec: str) -> None:
    with pytest.raises(UsageError):
        parse_arm(spec, BASE)


def test_no_arm_twice() -> None:
    with pytest.raises(UsageError, match="exact is named twice"):
        parse_arms(["plain", "exact", "exact"], BASE)
