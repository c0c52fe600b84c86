from __future__ import annotations

from dataclasses import replace

import pytest

from nsd_local.decoding.settings import Settings
from nsd_local.errors import UsageError
from nsd_local.measure.arms import parse_arm, parse_arms
from nsd_local.measure.sweep import theta_grid
from nsd_local.verification.block import NucleusBlock
from nsd_local.verification.lenience import Lenience
from nsd_local.verification.rule import Exact, Nucleus
from nsd_local.verification.rules import RULES

BASE = replace(Settings(), rule=Nucleus(theta=0.8), draft_tokens=5, budget=3.0, seed=7)


def test_plain_drafts_nothing() -> None:
    arm = parse_arm("plain", BASE)
    assert not arm.drafts
    assert arm.settings.draft_tokens == 0
    assert arm.describe()["rule"] is None


def test_the_base_rule_keeps_the_parameters_that_are_not_named() -> None:
    capped = replace(BASE, rule=Nucleus(theta=0.8, cap=0.02))
    assert parse_arm("nucleus", capped).settings == capped
    assert parse_arm("nucleus:theta=0.95", capped).settings.rule == Nucleus(theta=0.95, cap=0.02)
    assert parse_arm("nucleus:strength=0.5,k=2", capped).settings.rule == Nucleus(theta=0.8, strength=0.5, cap=0.02)
    assert {arm.settings.rule.cap for arm in theta_grid(capped, (2,), (0.85, 0.95))[2:]} == {0.02}


def test_another_rule_has_its_own_defaults() -> None:
    assert parse_arm("exact", BASE).settings == replace(BASE, rule=Exact())
    assert parse_arm("nucleus-block", BASE).settings.rule == NucleusBlock()
    assert parse_arm("lenience:l=0.7", BASE).settings.rule == Lenience(0.7)


def test_settings_of_the_request() -> None:
    settings = parse_arm("nucleus:k=7,strength=0.5,block=0,budget=none,exact-first=0,relax=1", BASE).settings
    assert settings == replace(
        BASE,
        rule=Nucleus(theta=0.8, strength=0.5),
        block=False,
        draft_tokens=7,
        budget=None,
        exact_first=0,
        relax_point_mass=True,
    )
    assert parse_arm("exact:k=auto", BASE).settings.draft_tokens == "auto"


def test_only_nucleus_can_judge_a_round_in_two_ways() -> None:
    for spec in ("exact:block=0", "nucleus-block:block=0", "nucleus:block=maybe"):
        with pytest.raises(UsageError, match="cannot be read"):
            parse_arm(spec, BASE)


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
