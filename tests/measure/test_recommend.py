"""The rule behind `recommend`."""

from __future__ import annotations

from nsd_local.catalog.catalog import load_catalog
from nsd_local.decoding.costs import Costs, Curve
from nsd_local.measure.recommend import Machine, checking, recommend, rule

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
    measured = checking(machine, [flat])
    assert any(r.wins for r in recommend(load_catalog(), machine, measured))
    assert "measured on this machine with one pair" in rule(measured, machine)
    assert "assumed for a CPU" in rule(checking(machine), machine)
