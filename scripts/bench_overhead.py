"""How thin the loop is: plain decoding against bare evaluation, a drafted token against the draft's pass, the rest.

    python scripts/bench_overhead.py [-m MODEL] [-d DRAFT] [--tokens 96] [--repeats 5] [--json FILE]

Repeats take turns; medians are compared. Exits with 1 when a limit is broken.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

import nsd_local
from nsd_local.decoding.settings import Settings
from nsd_local.errors import NsdError
from nsd_local.measure import overhead
from nsd_local.measure.prompts import load_prompts
from nsd_local.measure.setup import setup


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model")
    parser.add_argument("-d", "--draft")
    parser.add_argument("--tokens", type=int, default=96, help="tokens of each answer")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", type=Path, help="write everything here")
    given = parser.parse_args()
    settings = Settings(max_tokens=given.tokens)
    prompt = load_prompts(["code"], 1)[0]
    try:
        with nsd_local.load(given.model, given.draft, ctx=4096, threads=given.threads) as engine:
            machine = setup(engine)
            print(f"{machine['cpu_info']}, {machine['n_threads']} threads, {machine['build']}")
            print(f"{machine['model_type']} with {machine.get('draft_type', machine['draft'])}")
            found = [
                overhead.plain(engine, prompt, settings, given.repeats),
                overhead.drafting(engine, prompt, settings, given.repeats),
                *overhead.other(engine, prompt, settings, given.repeats),
            ]
    except NsdError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    for one in found:
        sign = ">=" if one.at_least else "<="
        print(f"{one.name:50} {one.value:.4f}  (limit {sign} {one.limit}) {'ok' if one.kept else 'BROKEN'}")
    if given.json:
        given.json.write_text(json.dumps({"setup": machine, "results": [asdict(one) for one in found]}, indent=1))
    return 0 if all(one.kept for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
