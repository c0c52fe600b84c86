"""Measures what automatic drafting gains: one interleaved run, every arm on the same prompts and seeds.

    python scripts/bench_speed.py pays   -m F16_TARGET [-d DRAFT]   gains, best fixed length, the match rule
    python scripts/bench_speed.py never-slower [-m TARGET] [-d DRAFT]     -k auto against plain decoding
    python scripts/bench_speed.py lookup [-m TARGET]                prompt lookup on texts that repeat
    python scripts/bench_speed.py simulate -m F16_TARGET [-d DRAFT]       what `simulate` predicts, against the clock

A stopped run goes on where it was with the same --out folder. Prints a table per kind of prompt and every promise with
its measured value; exits with 1 when one is broken. `scripts/make_f16_target.py` makes the F16 target.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

import nsd_local
from nsd_local.api import Engine
from nsd_local.cli import lab
from nsd_local.cli.status import status
from nsd_local.decoding.records_io import read_recordings
from nsd_local.decoding.settings import Settings
from nsd_local.errors import NsdError
from nsd_local.measure import columns, speed_check, table
from nsd_local.measure.arms import parse_arms
from nsd_local.measure.bench import Bench, bench
from nsd_local.measure.campaign import Campaign
from nsd_local.measure.prompts import Prompt, interleaved, load_prompts, repeating_prompts
from nsd_local.measure.speed_check import Check

ARMS = {
    "pays": [
        "plain",
        "nucleus:k=auto",
        "exact:k=auto",
        *(f"{rule}:k={k}" for rule in ("nucleus", "exact", "match") for k in (1, 2, 3, 4, 5, 7)),
    ],
    "never-slower": ["plain", "nucleus:k=auto"],
    "lookup": ["plain", "nucleus:k=auto"],
    "simulate": ["plain", *(f"nucleus:block=0,k={k}" for k in (2, 4, 7))],
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(ARMS))
    parser.add_argument("-m", "--model")
    parser.add_argument("-d", "--draft")
    parser.add_argument("--kinds", help="by commas; all eight")
    parser.add_argument("--per-kind", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=256, help="of each answer")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--arms", help="other arms, by semicolons")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--out", type=Path, default=Path("bench-speed"), help="folder for the records")
    return parser.parse_args()


def prompts(given: argparse.Namespace) -> list[Prompt]:
    if given.what == "lookup":
        return repeating_prompts()
    return interleaved(load_prompts(given.kinds.split(",") if given.kinds else None, given.per_kind))


def measure(engine: Engine, given: argparse.Namespace) -> Bench:
    settings = Settings(max_tokens=given.tokens)
    texts = prompts(given)
    arms = parse_arms(given.arms.split(";") if given.arms else ARMS[given.what], settings)
    campaign = Campaign(arms, texts, range(given.seeds), given.repeats, reuse=True)
    status(lab.setup_line(engine))
    words = [prompt.text for prompt in texts]
    with lab.open_journal(given.out, f"speed-{given.what}", engine, settings, words, None) as journal:
        return bench(engine, campaign, journal, say=status)


def checks(given: argparse.Namespace, found: Bench) -> list[Check]:
    if given.what == "lookup":
        return speed_check.checks_of_lookup(found.rows)
    if given.what == "never-slower":
        return speed_check.checks_where_it_may_not(found.rows)
    if given.what == "simulate":
        recordings = read_recordings(given.out / f"speed-{given.what}.rounds.jsonl")
        return speed_check.checks_of_simulation(found.rows, recordings)
    return speed_check.checks_where_drafting_pays(found.rows)


def main() -> int:
    given = arguments()
    draft = given.draft or ("ngram" if given.what == "lookup" else None)
    try:
        with nsd_local.load(given.model, draft, ctx=4096, threads=given.threads) as engine:
            found = measure(engine, given)
            results = [check for check in checks(given, found) if check.value == check.value]
    except NsdError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    print(table.markdown(columns.BENCH, found.summaries()), end="\n\n")
    for check in results:
        print(f"{check.what:62} {check.value:5.2f}  ({check.limits}) {'ok' if check.kept else 'BROKEN'}")
    if found.drift is not None and found.drift["drifted"]:
        print(f"plain decoding drifted by {100 * found.drift['change']:+.1f} % during the run")
    summary = {"checks": [asdict(one) for one in results], "summaries": found.summaries()}
    (given.out / f"speed-{given.what}.json").write_text(json.dumps(summary, indent=1))
    return 0 if all(check.kept for check in results) else 1


if __name__ == "__main__":
    sys.exit(main())
