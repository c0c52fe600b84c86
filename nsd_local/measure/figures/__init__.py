"""The figures of a report, drawn from recorded rounds. matplotlib is needed only here, and only when one is drawn."""

from __future__ import annotations

from nsd_local.measure.figures import laws, rejected, sequence, times, tradeoff
from nsd_local.measure.figures.canvas import Drawn, Figure

# In the order of the report: the paper's figures first.
_BY_NAME = {one.name: one for module in (times, rejected, laws, sequence, tradeoff) for one in module.FIGURES}
_ORDER = (
    "time_split",
    "rejected_rank",
    "rejected_location",
    "entropies",
    "mismatch",
    "kept_by_nucleus",
    "verify_time",
    "grid",
    "speed_by_kind",
    "acceptance_by_position",
    "k_over_time",
    "deviation_over_sequence",
    "speed_against_deviation",
    "accuracy",
)
FIGURES: tuple[Figure, ...] = tuple(_BY_NAME[name] for name in _ORDER)

__all__ = ["FIGURES", "Drawn", "Figure"]
