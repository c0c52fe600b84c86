"""Runs the whole series of measurements and makes the report. May be stopped and started again at any time.

    python scripts/lab.py --out DIR [-m TARGET] [-d DRAFT] [--gsm8k FILE] [--minutes N] [--only STEP]

Needs nsd-local with the lab extra in the Python that runs it. Steps, in this order: bench, sweep, rules, compare,
humaneval, gsm8k, report. What DIR already holds is not run again; after --minutes nothing new is started, except the
report. --per-kind and -n make the measurements of speed shorter, and need a DIR of their own.
`scripts/make_f16_target.py` makes an F16 target. --tiny runs a few tokens of each, to see that everything works.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import time
from pathlib import Path

ARMS = (
    "plain",
    "bare",
    "match",
    "exact",
    "block",
    "nucleus:theta=0.85",
    "nucleus:theta=0.95",
    "nucleus:theta=0.9,budget=2",
)
COMPARED = ("plain", "match", "exact", "block", "nucleus", "nucleus:block=0", "lenience", "cactus", "cascade", "topk")
SCORED = ("plain", "exact", "nucleus")


def steps(given: argparse.Namespace) -> dict[str, list[str]]:
    """The commands by name of the step."""
    tiny = ["--limit", "2", "-n", "12"] if given.tiny else []
    fixed = ["-k", str(given.k)]

    def prompts(per_kind: int) -> list[str]:
        return ["--per-kind", str(given.per_kind or per_kind), "-n", str(given.n), *tiny]

    found = {
        "bench": ["bench", *_arms(ARMS), *fixed, "--positions", *prompts(2)],
        "sweep": ["sweep", "--ks", "2,4,7", "--thetas", "0.85,0.9,0.95", *prompts(1)],
        "rules": ["sweep", "--rules", *fixed, *prompts(1)],
        "compare": ["compare", *_arms(COMPARED), "--ks", "2,4,7", *prompts(5)],
        "humaneval": ["eval", "humaneval", *_arms(SCORED), *fixed, "--allow-code-execution", *tiny],
        "gsm8k": [
            "eval",
            "gsm8k",
            *_arms(SCORED),
            *fixed,
            "--data",
            str(given.gsm8k),
            *(tiny or ["--limit", "100"]),
        ],
    }
    if given.gsm8k is None:
        del found["gsm8k"]
    return found


def _arms(names: tuple[str, ...]) -> list[str]:
    return [part for name in names for part in ("-a", name)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for records and report")
    parser.add_argument("-m", "--model", help="target (the default pair's)")
    parser.add_argument("-d", "--draft", help="draft (the pair's)")
    parser.add_argument("-k", type=int, default=4, help="draft length where none is swept")
    parser.add_argument("--per-kind", type=int, help="prompts of each kind (bench 2, sweep and rules 1, compare 5)")
    parser.add_argument("-n", type=int, default=128, help="tokens of each answer, tasks excepted (128)")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--gsm8k", type=Path, help="the problems of GSM8K (JSONL); left out without them")
    parser.add_argument("--minutes", type=float, help="start nothing new after so many")
    parser.add_argument("--only", action="append", help="only this step; repeatable")
    parser.add_argument("--tiny", action="store_true", help="a few tokens of everything")
    given = parser.parse_args()
    start = time.monotonic()
    shared = ["--out", str(given.out)]
    for flag, value in (("--model", given.model), ("--draft", given.draft), ("--threads", given.threads)):
        shared += [flag, str(value)] if value is not None else []
    for name, arguments in steps(given).items():
        left = None if given.minutes is None else given.minutes - (time.monotonic() - start) / 60
        if (given.only and name not in given.only) or (left is not None and left <= 0):
            continue
        limit = [] if left is None else ["--time-limit", f"{left:.1f}"]
        if code := _run([*arguments, *shared, *limit]):
            return code
    return _run(["report", str(given.out)]) if not given.only or "report" in given.only else 0


def _run(arguments: list[str]) -> int:
    print("$ " + shlex.join(["nsd-local", *arguments]), file=sys.stderr, flush=True)
    return subprocess.run([sys.executable, "-m", "nsd_local", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
