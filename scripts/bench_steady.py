"""Does an engine stay as it was? After many requests of random length it takes turns with one that was just loaded.

    python scripts/bench_steady.py [-m MODEL] [-d DRAFT] [--requests 200] [--tokens 64] [--repeats 7] [--threads N]

Prints resident memory on the way and the ratio of tokens per second, used engine to new one. Exits with 1 where memory
grew by more than 1 % or the used engine is slower than the spread of the new one's runs (at least 3 %) explains.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
from statistics import median

import psutil

import nsd_local
from nsd_local.api import Engine
from nsd_local.decoding.settings import Settings
from nsd_local.errors import NsdError
from nsd_local.measure.prompts import load_prompts

WARM = 5  # requests until all that is allocated once has been


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model")
    parser.add_argument("-d", "--draft")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=64, help="of the compared answers")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    try:
        with nsd_local.load(given.model, given.draft, ctx=4096, threads=given.threads) as used:
            first, last = use(used, given.requests)
            with nsd_local.load(given.model, given.draft, ctx=4096, threads=given.threads) as new:
                olds, news = compare(used, new, given.tokens, given.repeats)
    except NsdError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    growth = last / first
    ratio = median(old / fresh for old, fresh in zip(olds, news, strict=True))
    noise = max(0.03, (max(news) - min(news)) / median(news))
    print(f"memory after {given.requests} requests / after {WARM}: {growth:.4f} (at most 1.01)")
    print(f"speed after {given.requests} requests / of a new engine: {ratio:.3f} (noise of the new one {noise:.3f})")
    return 0 if growth <= 1.01 and ratio >= 1 - noise else 1


def use(engine: Engine, requests: int) -> tuple[int, int]:
    """Requests of random length; resident bytes after the first few and after all."""
    rng, process, first = random.Random(1), psutil.Process(), 0
    for i in range(1, requests + 1):
        prompt = " ".join(rng.choice(["alpha", "beta", "gamma", "delta"]) for _ in range(rng.randrange(1, 80)))
        engine.generate(prompt, Settings(seed=i, draft_tokens=rng.randrange(5), max_tokens=rng.randrange(1, 24)))
        gc.collect()
        if i == WARM:
            first = process.memory_info().rss
        if i % 20 == 0:
            print(f"{i} requests: {process.memory_info().rss / 2**20:,.0f} MiB", flush=True)
    return first, process.memory_info().rss


def compare(used: Engine, new: Engine, tokens: int, repeats: int) -> tuple[list[float], list[float]]:
    """Tokens per second of the same answer by both, in turns; the first of each is not counted."""
    prompt, settings = load_prompts(["code"], 1)[0].text, Settings(seed=3, draft_tokens=4, max_tokens=tokens)
    speeds: dict[Engine, list[float]] = {used: [], new: []}
    for i in range(repeats + 1):
        for engine in (used, new) if i % 2 else (new, used):
            result = engine.generate(prompt, settings)
            speeds[engine].append(sum(len(one.tokens) for one in result.rounds) / result.predicted_s)
    return speeds[used][1:], speeds[new][1:]


if __name__ == "__main__":
    sys.exit(main())
