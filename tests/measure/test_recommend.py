"""The rule behind `recommend`."""

from __future__ import annotations

from nsd_local.catalog.catalog import load_catalog
from nsd_local.decoding.costs import Costs, Curve
from nsd_local.measure.recommend import LEGIBLE, Calibrated, Machine, checking, recommend, rule

GIB = 2**30


def test_on_a_gpu_large_targets_with_small_drafts_win() -> None:
    machine = Machine(24 * GIB, gpu=True)
    found = recommend(load_catalog(), machine, checking(machine))
    assert found[0].wins
    assert all(r.pair.memory_gib * GIB <= 0.8 * machine.memory for r in found)
    best = {r.pair.name: r for r in found}
    assert best["qwen2.5-coder-14b+0.5b"].gain > best["qwen2.5-coder-14b+1.5b"].gain
    assert best["qwen2.5-coder-14b+0.5b"].gain > 1.5


def test_where_checking_costs_as_much_as_decoding_nothing_wins() -> None:
    machine = Machine(24 * GIB, gpu=False)
    found = recommend(load_catalog(), machine, checking(machine))
    assert found
    assert not any(r.wins for r in found)


def test_what_was_measured_here_replaces_the_assumption() -> None:
    machine = Machine(16 * GIB, gpu=False)
    flat = Costs((Curve(0, {n: 0.1 + 0.001 * n for n in range(1, 17)}, {}),))
    measured = checking(machine, [Calibrated(GIB, flat)])
    assert any(r.wins for r in recommend(load_catalog(), machine, measured))
    assert "measured on this machine with one pair" in rule(measured, machine)
    assert "assumed for a CPU" in rule(checking(machine), machine)


def test_what_was_measured_with_a_toy_says_nothing() -> None:
    machine = Machine(16 * GIB, gpu=False)
    toy = Calibrated(467_712, Costs((Curve(0, dict.fromkeys(range(1, 17), 0.0001), {}),)))
    assert checking(machine, [toy]) == checking(machine)


def test_targets_too_large_for_this_processor_come_last() -> None:
    """1 GB a tenth of a second: a target of 9 GB makes about one token a second."""
    machine = Machine(24 * GIB, gpu=False)
    costs = Costs((Curve(0, {n: 0.1 * (1 + 0.6 * (n - 1)) for n in range(1, 17)}, {}),))
    measured = checking(machine, [Calibrated(1_000_000_000, costs)])
    assert "checking 4 tokens takes as long as 2.8 single passes" in rule(measured, machine)
    found = recommend(load_catalog(), machine, measured)
    slow = [r.slow for r in found]
    assert slow == sorted(slow)
    assert {True, False} == set(slow)
    assert found[-1].rate is not None
    assert found[-1].rate < 1.5
    assert not any(r.wins for r in found if r.slow)
    assert all(r.rate is not None and r.rate >= LEGIBLE for r in found if not r.slow)
