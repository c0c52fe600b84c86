"""How fast the verification core is, next to numpy on the same rows: medians of interleaved runs, single thread.

    python scripts/bench_core.py [--vocab 151936] [--drafts 8] [--repeats 41]

Prints the ratios and exits with 1 when one breaks its limit. Unit: the time numpy needs for
`np.exp((row - max) * inv_t).sum()` over the same 2k+1 rows (the maxima known beforehand).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from nsd_local.sampling import Law
from nsd_local.verification import Exact, Nucleus, Rule, Verifier, warm_up
from nsd_local.verification.block import Block, NucleusBlock
from nsd_local.verification.rules import RULES

LAW, GREEDY = Law(temperature=0.7), Law(temperature=0.0)


def model_like_rows(n: int, vocab: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """(n, V) float32 shaped like a language model's: a broad bulk, and a few dozen candidates above it."""
    bulk = rng.normal(0.0, 1.6, vocab)
    rows = bulk + rng.normal(2.0, 1.6, (n, vocab))
    for row in rows:
        row[rng.choice(vocab, 60, replace=False)] = 14.0 + rng.gumbel(0.0, 2.0, 60)
    return rows.astype(np.float32)


class Case:
    """One block of drafts, and a second one whose first draft is rejected for certain."""

    def __init__(self, k: int, vocab: int) -> None:
        rng = np.random.default_rng(7)
        self.k = k
        self.target = model_like_rows(k + 1, vocab, rng)
        self.draft = (self.target[:k] + rng.normal(0.0, 0.7, (k, vocab))).astype(np.float32)
        gumbel = rng.gumbel(size=(k, vocab))
        self.tokens = np.argmax(self.draft / LAW.temperature + gumbel, axis=1).astype(np.int32)
        self.bad_draft, self.bad_tokens = self.draft.copy(), self.tokens.copy()
        self.bad_tokens[0] = int(np.argmin(self.target[0]))
        self.bad_draft[0, self.bad_tokens[0]] = 30.0
        self.uniforms = rng.random(k)
        self.verifier = Verifier(vocab, k)
        self.rows = np.concatenate([self.target, self.draft])
        self.tops = self.rows.max(axis=1)
        self.rate = np.float32(1.0 / LAW.temperature)

    def numpy(self) -> None:
        for row, top in zip(self.rows, self.tops, strict=True):
            np.exp((row - top) * self.rate).sum()

    def block(self, rule: Rule, meter: bool) -> None:
        low = np.zeros(self.k)  # uniforms that keep every draft: the dearest block
        verdict = self.verifier.verify(self.target, self.draft, self.tokens, low, 0.5, LAW, rule, meter=meter)
        if len(verdict.accepted) != self.k:
            raise RuntimeError("the full block was cut short")

    def whole(self, rule: Rule, meter: bool) -> None:
        """A round of all k drafts whose uniforms put the tests of block verification to work."""
        self.verifier.verify(self.target, self.draft, self.tokens, self.uniforms, 0.5, LAW, rule, meter=meter)

    def positions(self, rule: Rule, meter: bool, law: Law = LAW) -> None:
        """Every position as a round of its own: the same work for every rule, however much it accepts."""
        low = np.zeros(1)
        for i in range(self.k):
            rows = self.target[i : i + 2]
            draft, tokens = self.draft[i : i + 1], self.tokens[i : i + 1]
            self.verifier.verify(rows, draft, tokens, low, 0.5, law, rule, meter=meter)

    def reject(self, rule: Rule, meter: bool) -> None:
        high = np.full(self.k, 1.0 - 1e-12)
        verdict = self.verifier.verify(self.target, self.bad_draft, self.bad_tokens, high, 0.5, LAW, rule, meter=meter)
        if verdict.accepted:
            raise RuntimeError("the first draft was not rejected")


def medians(jobs: dict[str, Callable[[], None]], repeats: int) -> dict[str, float]:
    """Median seconds of each job; the jobs take turns, so that a slow moment of the machine hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for job in jobs.values():
        job()
    for _ in range(repeats):
        for name, job in jobs.items():
            start = time.perf_counter()
            job()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(series) for name, series in times.items()}


def measure(case: Case, repeats: int) -> bool:
    """The two core rules against numpy; prints a line per ratio; True when all keep their limits."""
    jobs: dict[str, Callable[[], None]] = {"numpy": case.numpy}
    limits: list[tuple[str, str, float]] = []
    for rule in (Exact(), Nucleus()):
        for meter, limit in ((False, 1.0), (True, 2.0)):
            name = f"{rule.name}, {'with the meter' if meter else 'decisions only'}"
            jobs[name] = partial(case.block, rule, meter)
            jobs[name + ", rejected at once"] = partial(case.reject, rule, meter)
            limits += [(name, "numpy", limit), (name + ", rejected at once", name, 1.0 / 3.0)]
    for block in (Block(), NucleusBlock()):
        for meter, how in ((False, "decisions only"), (True, "with the meter")):
            jobs[f"{block.name}, {how}"] = partial(case.whole, block, meter)
            limits.append((f"{block.name}, {how}", f"exact, {how}", 3.0))
    seconds = medians(jobs, repeats)
    print(f"numpy's exp and sum over {len(case.rows)} rows: {seconds['numpy'] * 1e3:.2f} ms")
    return report(seconds, limits)


def measure_rules(case: Case, repeats: int) -> bool:
    """Every other rule against exact verification of the same positions."""
    jobs: dict[str, Callable[[], None]] = {}
    limits: list[tuple[str, str, float]] = []
    for meter, how in ((False, "decisions only"), (True, "with the meter")):
        jobs[f"exact, {how}"] = partial(case.positions, Exact(), meter)
        jobs[f"exact at 0, {how}"] = partial(case.positions, Exact(), meter, GREEDY)
        for name, rule in RULES.items():
            if name in ("exact", "nucleus", "block", "nucleus-block"):
                continue
            unit = "exact at 0" if name == "asd" else "exact"
            jobs[f"{name}, {how}"] = partial(case.positions, rule(), meter, GREEDY if name == "asd" else LAW)
            limits.append((f"{name}, {how}", f"{unit}, {how}", 3.0))
    return report(medians(jobs, repeats), limits)


def report(seconds: dict[str, float], limits: list[tuple[str, str, float]]) -> bool:
    kept = True
    for name, unit, limit in limits:
        ratio = seconds[name] / seconds[unit]
        kept &= ratio <= limit
        verdict = "ok" if ratio <= limit else "TOO SLOW"
        print(f"{name:45} {seconds[name] * 1e3:7.2f} ms  {ratio:5.2f} of {unit:32} limit {limit:.2f}  {verdict}")
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--vocab", type=int, default=151_936)
    parser.add_argument("--drafts", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=41)
    arguments = parser.parse_args()
    warm_up(arguments.vocab)
    case = Case(arguments.drafts, arguments.vocab)
    kept = measure(case, arguments.repeats)
    kept &= measure_rules(case, max(3, arguments.repeats // 2))
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
