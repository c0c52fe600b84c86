"""verify_block against cases whose verdicts were made in float64 with full sorts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nsd_local.sampling import Law
from nsd_local.verification import Exact, Nucleus, Rule, Verdict, verify_block

OWN = Path(__file__).with_name("vectors.json")
SHARED = Path(os.environ.get("NSD_SHARED") or Path(__file__).parents[3] / "shared") / "vectors" / "verify.json"


def rows(lists: list[list[float | None]]) -> np.ndarray:
    """(n, V) float32; null is minus infinity."""
    return np.array([[-np.inf if value is None else value for value in row] for row in lists], np.float32)


def run(case: dict[str, Any], rule: Rule, meter: bool) -> Verdict:
    target = rows(case["target"])
    draft = None
    if case["draft"] is not None:
        draft = rows(case["draft"]) if case["draft"] else np.empty((0, target.shape[1]), np.float32)
    law = Law(case["temperature"], case["top_k"], case["top_p"], case["min_p"])
    tokens = np.array(case["tokens"], np.int32)
    return verify_block(target, draft, tokens, np.array(case["u_accept"]), case["u_last"], law, rule, meter=meter)


def assert_same(verdict: Verdict, expected: dict[str, Any], meter: bool) -> None:
    assert verdict.accepted == expected["accepted"]
    assert (verdict.last_kind, verdict.last_token) == (expected["last_kind"], expected["last_token"])
    assert verdict.in_nucleus.tolist() == expected["in_nucleus"][: len(verdict.in_nucleus)]
    if meter:
        for name in ("divergence", "excess", "deviation"):
            measured = getattr(verdict, name)
            assert len(measured) == min(len(verdict.accepted) + 1, len(expected[name]))
            np.testing.assert_allclose(measured, expected[name][: len(measured)], atol=1e-6)


@pytest.mark.parametrize("meter", [True, False], ids=["meter", "no-meter"])
@pytest.mark.parametrize("case", json.loads(OWN.read_text()), ids=lambda case: case["name"])
def test_own_vectors(case: dict[str, Any], meter: bool) -> None:
    assert_same(run(case, Nucleus(case["theta"], case["strength"]), meter), case["verdict"], meter)
    if case["strength"] == 0.0:
        exact = run(case, Exact(), meter)
        assert exact.accepted == case["verdict"]["accepted"]
        assert exact.last_token == case["verdict"]["last_token"]


@pytest.mark.skipif(not SHARED.is_file(), reason="the larger set of vectors is not on this machine (NSD_SHARED)")
@pytest.mark.parametrize("meter", [True, False], ids=["meter", "no-meter"])
def test_shared_vectors(meter: bool) -> None:
    for case in json.loads(SHARED.read_text())["cases"]:
        case |= {"target": case["target_logits"], "tokens": case["draft_tokens"]}
        case["draft"] = None if case["point_mass_draft"] else case["draft_logits"]
        nucleus = case["expect"]["nucleus"] | {
            "in_nucleus": case["in_nucleus"],
            "divergence": case["tv"],
            "excess": case["excess"],
            "deviation": [case["strength"] * excess for excess in case["excess"]],
        }
        assert_same(run(case, Nucleus(case["theta"], case["strength"]), meter), nucleus, meter)
        exact = run(case, Exact(), meter)
        assert (exact.accepted, exact.last_kind, exact.last_token) == tuple(case["expect"]["exact"].values())
        assert not exact.deviation.any()
        if meter:
            np.testing.assert_allclose(exact.divergence, case["tv"][: len(exact.divergence)], atol=1e-6)
