"""The numbers of a request, all derived from its round records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nsd_local.decoding.records import Round, Times, Token
from nsd_local.verification.verdict import Kind


@dataclass(frozen=True)
class Summary:
    """Counts, rates and times over rounds. Words as in the project's glossary (docs/how_it_works.md)."""

    rounds: Sequence[Round]

    @cached_property
    def tokens(self) -> list[Token]:
        return [token for round_ in self.rounds for token in round_.tokens]

    @cached_property
    def kinds(self) -> Counter[Kind]:
        return Counter(token.kind for token in self.tokens)

    @property
    def drafted(self) -> int:
        return sum(round_.k for round_ in self.rounds)

    @property
    def accepted(self) -> int:
        """Drafts that were kept and delivered (a draft past the end of the answer is not)."""
        return self.kinds["ratio"] + self.kinds["nucleus"]

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted drafts / drafted tokens; None where nothing was drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def acceptance_per_position(self) -> list[float]:
        """Entry i: of the rounds that drafted more than i tokens, the share that kept draft i."""
        longest = max((round_.k for round_ in self.rounds), default=0)
        tried = [sum(round_.k > i for round_ in self.rounds) for i in range(longest)]
        kept = [sum(round_.accepted > i for round_ in self.rounds) for i in range(longest)]
        return [k / t for k, t in zip(kept, tried, strict=True)]

    @property
    def mean_accepted_length(self) -> float | None:
        """tau: emitted tokens / rounds, the recovered or bonus token included."""
        return len(self.tokens) / len(self.rounds) if self.rounds else None

    @property
    def deviations(self) -> list[float]:
        """Of every processed draft position; of the tokens themselves in rounds that drafted nothing (0 but for rules
        that truncate the target)."""
        own = ([token.deviation for token in round_.tokens] for round_ in self.rounds if not round_.k)
        drafted = (round_.deviation for round_ in self.rounds if round_.k)
        return [value for values in (*drafted, *own) for value in values]

    @property
    def deviation_sum(self) -> float:
        return float(sum(self.deviations))

    @property
    def deviation_max(self) -> float:
        return float(max(self.deviations, default=0.0))

    @property
    def divergence_mean(self) -> float | None:
        """Mean TV(p, q) over the processed draft positions; None where nothing was metered."""
        values = np.array([value for round_ in self.rounds for value in round_.divergence])
        values = values[~np.isnan(values)]
        return float(values.mean()) if values.size else None

    @property
    def times(self) -> Times:
        parts = ("draft", "verify", "accept", "rollback", "other")
        return Times(**{part: sum(getattr(round_.times, part) for round_ in self.rounds) for part in parts})

    @property
    def tokens_per_second(self) -> float | None:
        seconds = self.times.total
        return len(self.tokens) / seconds if seconds else None
