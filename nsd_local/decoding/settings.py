"""Everything a request may choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from nsd_local import checks
from nsd_local.engine.gbnf import check
from nsd_local.engine.schema.converter import schema_to_gbnf
from nsd_local.errors import UsageError
from nsd_local.sampling.law import Law
from nsd_local.sampling.penalties import Penalties
from nsd_local.verification.block import NucleusBlock
from nsd_local.verification.rule import Nucleus, Rule


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one request; change one with `dataclasses.replace`.

    `block`: the rule `nucleus` judges the drafts of a round together, as `nucleus-block`, which keeps more of them at
    the same deviation; False is the paper's token-wise form. Other rules do not heed it.
    `draft_tokens` is k: "auto" (what pays here), a fixed number, or 0 for plain decoding. `max_tokens` None means
    until the model stops or the context is full. `seed` None draws a fresh one, which the result names. `budget`
    bounds the deviation summed over the request; `exact_first` is the number of emitted tokens verified exactly
    before the rule applies. `relax_point_mass` applies the rule to point-mass drafts too (DESIGN: off by default).
    `grammar` (GBNF) or `json_schema` (JSON text) constrain the answer, which is then verified exactly, whatever the
    rule.
    """

    law: Law = field(default_factory=lambda: Law(temperature=0.7, min_p=0.05))
    penalties: Penalties = field(default_factory=Penalties)
    logit_bias: tuple[tuple[int, float], ...] = ()  # (token id, added to its logit)
    rule: Rule = field(default_factory=Nucleus)
    block: bool = True
    budget: float | None = None
    exact_first: int = 2
    relax_point_mass: bool = False
    draft_tokens: int | Literal["auto"] = "auto"
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    grammar: str | None = None
    json_schema: str | None = None
    seed: int | None = None
    meter: bool = True  # log divergence and excess at every processed position, also where the rule does not need them

    def __post_init__(self) -> None:
        checks.kind("law", self.law, Law)
        checks.kind("penalties", self.penalties, Penalties)
        checks.kind("rule", self.rule, Rule)
        checks.kind("block", self.block, bool)
        checks.number(self, "budget", lambda value: value >= 0.0, "be 0 or more", optional=True)
        if self.budget is not None and not self.rule.takes_budget:
            raise UsageError(f"The rule {self.rule.name} takes no budget", "it deviates at every token", "Leave it out")
        checks.whole(self, "exact_first")
        if self.draft_tokens != "auto":
            checks.whole(self, "draft_tokens", 0, 64, must="be auto or lie in 0..64")
        checks.whole(self, "max_tokens", 1, optional=True)
        checks.whole(self, "seed", optional=True)
        object.__setattr__(self, "logit_bias", _biases(self.logit_bias))
        object.__setattr__(self, "stop", _stops(self.stop))
        self._check_grammar()

    @property
    def verified_by(self) -> Rule:
        """The rule in the form that verifies. Where theta, strength, cap or budget is 0, or under a grammar, nucleus
        judges one by one and so is `exact`, token for token."""
        rule = self.rule
        if not (self.block and isinstance(rule, Nucleus)):
            return rule
        strict = 0.0 in (rule.theta, rule.strength, rule.cap, self.budget) or self.grammar or self.json_schema
        return rule if strict else NucleusBlock(rule.theta, rule.strength, rule.cap)

    def _check_grammar(self) -> None:
        if self.grammar is not None and self.json_schema is not None:
            raise UsageError("grammar and json-schema exclude each other", "", "Give one of them")
        if self.grammar is not None:
            checks.text("grammar", self.grammar)
            check(self.grammar)
        if self.json_schema is not None:
            checks.text("json-schema", self.json_schema)
            schema_to_gbnf(self.json_schema)


def _biases(biases: Any) -> tuple[tuple[int, float], ...]:
    """The (token, amount) pairs, checked; minus infinity forbids a token."""
    checks.kind("logit-bias", biases, Sequence)
    must = "be minus infinity or a finite number of ordinary size"
    checked = []
    for pair in biases:
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise UsageError(f"logit-bias holds (token, amount) pairs, not {checks.shown(pair)}")
        token = checks.as_whole("the token of a logit-bias", pair[0])
        amount = checks.as_number(
            "the amount of a logit-bias",
            pair[1],
            lambda value: value == float("-inf") or abs(value) <= checks.LARGEST,
            must,
        )
        checked.append((token, amount))
    return tuple(checked)


def _stops(stops: Any) -> tuple[str, ...]:
    """The stop strings, checked."""
    if isinstance(stops, str):
        raise UsageError("stop is a tuple of texts, not one text", "", f"Write ({checks.shown(stops)},)")
    checks.kind("stop", stops, Sequence)
    for text in stops:
        checks.text("a stop string", text)
        if not text:
            raise UsageError("a stop string must not be empty")
    return tuple(stops)
