"""Everything a request may choose."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from nsd_local.engine.gbnf import check
from nsd_local.engine.schema.converter import schema_to_gbnf
from nsd_local.errors import UsageError
from nsd_local.sampling.law import Law
from nsd_local.sampling.penalties import Penalties
from nsd_local.verification.rule import Nucleus, Rule


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one request; change one with `dataclasses.replace`.

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
        if self.budget is not None and not self.budget >= 0.0:
            raise UsageError(f"budget must be 0 or more, not {self.budget}")
        if self.exact_first < 0:
            raise UsageError(f"exact-first must be 0 or more, not {self.exact_first}")
        if self.draft_tokens != "auto" and not 0 <= self.draft_tokens <= 64:
            raise UsageError(f"draft-tokens must be auto or lie in 0..64, not {self.draft_tokens}")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError(f"max-tokens must be 1 or more, not {self.max_tokens}")
        if any(not text for text in self.stop):
            raise UsageError("a stop string must not be empty")
        if self.grammar is not None and self.json_schema is not None:
            raise UsageError("grammar and json-schema exclude each other", "", "Give one of them")
        gbnf = schema_to_gbnf(self.json_schema) if self.json_schema is not None else self.grammar
        if gbnf is not None:
            check(gbnf)
        if self.seed is not None and self.seed < 0:
            raise UsageError(f"seed must be 0 or more, not {self.seed}")
