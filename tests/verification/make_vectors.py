"""Writes vectors.json: verification cases whose verdicts come from the float64 oracle.

    python -m tests.verification.make_vectors

Logits have one decimal, so ties are common; cases that a float32 rounding could tip are drawn again.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tests.verification import oracle

FILE = Path(__file__).with_name("vectors.json")
CLEAR = 1e-4  # distance that every decision keeps from its threshold


def logits(rng, n, vocab, kind):
    rows = rng.normal(0.0, 2.0, (n, vocab))
    if kind == "ties":
        rows = np.round(rows / 2.0) * 2.0
    if kind == "masked":
        rows[rng.random((n, vocab)) < 0.4] = -np.inf
        rows[:, rng.integers(vocab)] = 0.5
    return np.round(rows, 1)


def is_clear(case):
    """No decision of the case lies within CLEAR of a threshold, with either strength."""
    law = {name: case[name] for name in ("temperature", "top_k", "top_p", "min_p")}
    target = np.array(case["target"])
    for i, x in enumerate(case["tokens"]):
        p = oracle.shaped(target[i], **law)
        q = np.eye(len(p))[x] if case["draft"] is None else oracle.shaped(case["draft"][i], **law)
        a = min(1.0, p[x] / q[x])
        u, s = case["u_accept"][i], case["strength"]
        before = sum(p[t] for t in oracle.ranking(target[i])[: oracle.ranking(target[i]).index(x)])
        if min(abs(u - a), abs(u - a - s * (1 - a)), abs(before - case["theta"])) < CLEAR:
            return False
        if case["top_p"] < 1.0:
            masses = np.cumsum(sorted(oracle.shaped(target[i], 1.0, case["top_k"]), reverse=True))
            if np.abs(masses - case["top_p"]).min() < CLEAR:
                return False
        for goal in (p, np.maximum(p - q, 0.0)):
            if goal.sum() > 0 and np.abs(np.cumsum(goal / goal.sum()) - case["u_last"]).min() < CLEAR:
                return False
    last = np.cumsum(oracle.shaped(target[-1], **law))
    return np.abs(last - case["u_last"]).min() >= CLEAR


def draw_case(rng, index):
    kind = ("plain", "ties", "masked", "truncated", "point", "greedy")[index % 6]
    vocab, k = int(rng.choice([1, 2, 3, 7, 12])), int(rng.integers(0, 6))
    if kind == "masked":
        vocab = max(vocab, 3)
    law = {"temperature": float(rng.choice([0.3, 0.8, 1.0, 1.6])), "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    if kind == "truncated":
        law |= {"top_k": int(rng.choice([0, 3])), "top_p": float(rng.choice([1.0, 0.75])), "min_p": 0.03}
    if kind == "greedy":
        law["temperature"] = 0.0
    target = logits(rng, k + 1, vocab, kind)
    draft = np.round(target[:k] + rng.normal(0.0, 1.0, (k, vocab)), 1)
    laws = [oracle.shaped(row, **law) for row in draft]
    tokens = [int(rng.choice(vocab, p=q)) for q in laws]
    if kind == "point":
        tokens, draft = [int(t) for t in rng.integers(0, vocab, k)], None
    return {
        "name": f"{kind}-{index}", **law, "theta": float(rng.choice([0.0, 0.5, 0.9, 1.0])),
        "strength": float(rng.choice([0.0, 0.4, 1.0])), "target": target.tolist(),
        "draft": None if draft is None else draft.tolist(), "tokens": tokens,
        "u_accept": [round(float(u), 4) for u in rng.random(k)], "u_last": round(float(rng.random()), 4),
    }  # fmt: skip


def with_verdict(case):
    law = {name: case[name] for name in ("temperature", "top_k", "top_p", "min_p")}
    draft = None if case["draft"] is None else np.array(case["draft"])
    verdict = oracle.verify(
        np.array(case["target"]), draft, case["tokens"], case["u_accept"], case["u_last"], law,
        case["theta"], case["strength"],
    )  # fmt: skip
    return case | {"verdict": verdict}


def finite(value):
    """Minus infinity as null, numpy numbers as Python's."""
    if isinstance(value, dict):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [finite(inner) for inner in value]
    if isinstance(value, float):
        return None if value == -np.inf else round(float(value), 9)
    return value


def main():
    rng = np.random.default_rng(20)
    cases = []
    while len(cases) < 120:
        case = draw_case(rng, len(cases))
        if is_clear(case):
            cases.append(finite(with_verdict(case)))
    lines = ",\n".join(json.dumps(case) for case in cases)
    FILE.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
