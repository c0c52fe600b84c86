"""Grids of settings: draft length by theta as in Table 2 of the NSD paper, and every rule from strict to loose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nsd_local.decoding.settings import Settings
from nsd_local.errors import UsageError
from nsd_local.measure.arms import PLAIN, Arm, parse_arm
from nsd_local.measure.runner import Row
from nsd_local.verification.rules import RULES

KS, THETAS = (2, 4, 7), (0.85, 0.9, 0.95)
# Each lossy rule's parameters from nearly strict to loose.
LADDERS: dict[str, tuple[str, ...]] = {
    "nucleus": ("block=0,strength=0.25", "block=0,strength=0.5", "block=0,strength=1", "block=0,strength=1,theta=0.95"),
    "nucleus-block": ("strength=0.25", "strength=0.5", "strength=1", "strength=1,theta=0.95"),
    "auto-strength": ("deviation=0.005", "deviation=0.01", "deviation=0.02", "deviation=0.05"),
    "lenience": ("l=0.9", "l=0.7", "l=0.5", "l=0.3"),
    "typical": ("eps=0.5,alpha=1", "eps=0.3,alpha=0.6", "eps=0.09,alpha=0.3"),
    "topk": ("n=1", "n=2", "n=3", "n=5"),
    "threshold": ("acc=0.9,single=0.9", "acc=0.7,single=0.7", "acc=0.5,single=0.5"),
    "cactus": ("delta=0.01", "delta=0.05", "delta=0.2"),
    "cascade": ("alpha=0.1", "alpha=0.3", "alpha=0.6"),
    "relaxed": ("n=10,delta=0.1", "n=10,delta=0.3", "n=10,delta=0.6"),
    "asd": ("budget=2", "budget=8"),
    "mars": ("margin=0.98", "margin=0.9"),
    "target-topp": ("theta=0.99", "theta=0.95", "theta=0.9"),
}


def theta_grid(base: Settings, ks: Sequence[int], thetas: Sequence[float]) -> list[Arm]:
    """Plain decoding; exact at every k; nucleus at every k and theta, token by token as in the paper."""
    base = replace(base, block=False)
    specs = [PLAIN, *(f"exact:k={k}" for k in ks)]
    specs += [f"nucleus:theta={theta:g},k={k}" for k in ks for theta in thetas]
    return [parse_arm(spec, base) for spec in specs]


def rule_grid(base: Settings, rules: Sequence[str] = ()) -> list[Arm]:
    """Plain decoding; every lossless rule; every lossy rule (or those of `rules`) at the steps of its ladder.

    Rules that cannot work at the given temperature are left out, unless they were asked for.
    """
    specs = [PLAIN]
    for name in rules or RULES:
        steps = LADDERS.get(name, ())
        specs += [f"{name}:{step}" for step in steps] or [name]
    arms = []
    for spec in specs:
        try:
            arm = parse_arm(spec, base)
            arm.settings.rule.check_law(arm.settings.law)
        except UsageError:
            if rules:
                raise
            continue
        arms.append(arm)
    return arms


def theta_table(summaries: Sequence[Row], ks: Sequence[int], thetas: Sequence[float]) -> list[Row]:
    """The grid as the paper prints it: one row per rule and theta, the columns of each k side by side."""
    by_arm = {values["arm"]: values for values in summaries}
    rows = []
    for label, spec in [
        ("exact", "exact:k={k}"),
        *((f"nucleus {t:g}", f"nucleus:theta={t:g},k={{k}}") for t in thetas),
    ]:
        row: Row = {"rule": label}
        for k in ks:
            values = by_arm.get(spec.format(k=k), {})
            for name in ("speedup", "mean_accepted_length", "score", "deviation_per_token"):
                row[f"{name}_k{k}"] = values.get(name)
        rows.append(row)
    return rows
