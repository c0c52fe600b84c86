"""The default pair itself: right answers, memory in bounds, refusals. 1.6 GB, fetched once, kept in the user cache."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import nsd_local
from nsd_local import Exact, Law, Message, Nucleus, Settings, Summary
from nsd_local.catalog import resolve
from nsd_local.errors import PairError

pytestmark = pytest.mark.real
GREEDY = Settings(law=Law(temperature=0.0), rule=Exact(), draft_tokens=4, max_tokens=80)
MERGE = "Write a Python function that merges two sorted lists."


@pytest.fixture(scope="module")
def engine():
    with nsd_local.load(ctx=4096) as pair:
        yield pair


@pytest.fixture(scope="module")
def twin():
    """The draft model in both roles."""
    draft = str(resolve("default", role="draft").path)
    with nsd_local.load(draft, draft, ctx=4096) as pair:
        yield pair


def ids(result):
    return [token.id for round_ in result.rounds for token in round_.tokens]


def test_the_first_answer_of_a_newcomer_is_right(engine):
    result = engine.generate(MERGE, Settings(seed=1, draft_tokens=4, max_tokens=700))
    assert result.finish_reason == "stop"
    code = result.text.split("```python")[1].split("```")[0]
    names: dict[str, object] = {}
    exec(compile(code, "answer", "exec"), names)  # the model's answer to a fixed prompt, seed and file
    functions = [value for value in names.values() if callable(value)]
    assert functions[0]([1, 4, 6], [2, 3, 9]) == [1, 2, 3, 4, 6, 9]
    summary = Summary(result.rounds)
    assert summary.acceptance_rate > 0.6
    assert 0 < summary.deviation_sum < 0.2 * len(summary.tokens)


def test_draft_and_target_alike_are_kept_and_end_together(twin):
    long = twin.generate(MERGE, replace(GREEDY, max_tokens=500))
    drafted = Summary(long.rounds)
    assert drafted.acceptance_rate >= 0.99
    windows = [round_.accepted / round_.k for round_ in long.rounds if round_.k]
    thirds = [float(np.mean(part)) for part in np.array_split(windows, 3)]
    assert min(thirds) >= 0.98  # flat over time
    short = twin.generate("Say hi.", replace(GREEDY, draft_tokens=16))
    assert short.finish_reason == "stop"
    assert ids(short) == ids(twin.generate("Say hi.", replace(GREEDY, draft_tokens=0)))
    assert twin.target.is_eog(ids(short)[-1])
    assert len(twin.decoder.target.tokens) <= len(twin.tokens("Say hi.")) + len(ids(short))


@pytest.mark.parametrize("k", [2, 8])
def test_temperature_zero_parts_from_the_plain_text_only_at_near_ties(engine, k):
    prompt = engine.tokens(MERGE)
    plain = ids(engine.generate(prompt, replace(GREEDY, draft_tokens=0)))
    drafted = ids(engine.generate(prompt, replace(GREEDY, draft_tokens=k)))
    part = next((i for i, (a, b) in enumerate(zip(plain, drafted, strict=False)) if a != b), None)
    if part is not None:
        context = engine.decoder.target
        context.rewind(0)
        row = context.evaluate([*prompt, *plain[:part]], rows=1)[0]
        assert abs(row[plain[part]] - row[drafted[part]]) < 0.3
    assert part is None or part >= 3


def test_no_answer_turns_into_a_dialogue_with_itself(engine):
    for seed in range(20):
        result = engine.generate("Hi!", Settings(seed=seed, draft_tokens=6, max_tokens=60))
        assert "<|im_start|>" not in result.text
        assert "assistant\n" not in result.text
        eog = [engine.target.is_eog(token) for token in ids(result)]
        assert not any(eog[:-1])


def test_the_second_turn_reads_only_what_is_new(engine):
    first = [Message("user", "Name three colours.")]
    answer = engine.generate(first, replace(GREEDY, draft_tokens=12))
    prompt = [*engine.tokens(first), *ids(answer), *engine.target.tokenize("\n", special=False, add_bos=False)]
    more = engine.target.tokenize(
        "<|im_start|>user\nAnd a fourth?<|im_end|>\n<|im_start|>assistant\n", special=True, add_bos=False
    )
    second = engine.generate([*prompt, *more], replace(GREEDY, draft_tokens=12))
    assert second.prompt_n <= len(more) + 3


def test_an_incompatible_draft_is_refused_with_both_values(engine):
    with pytest.raises(PairError) as error:
        nsd_local.load("qwen2.5-coder-1.5b-instruct", "smollm2-135m-instruct", ctx=512)
    assert "151,936" in str(error.value) or "size" in str(error.value) or "type" in str(error.value)
    assert error.value.exit_code == 3


def test_nucleus_keeps_more_than_exact(engine):
    settings = Settings(seed=3, draft_tokens=4, max_tokens=120, law=Law(temperature=1.0))
    prompt = "Write a short story about a lighthouse."
    nucleus = Summary(engine.generate(prompt, replace(settings, rule=Nucleus(0.9))).rounds)
    exact = Summary(engine.generate(prompt, replace(settings, rule=Exact())).rounds)
    assert nucleus.kinds["nucleus"] > 0
    assert nucleus.acceptance_rate > exact.acceptance_rate
    assert exact.deviation_sum == 0.0


MEMORY = """
import gc, json, random, sys, psutil
import nsd_local
from nsd_local import Settings
process, rng = psutil.Process(), random.Random(1)
def rss(): gc.collect(); return process.memory_info().rss
engine = nsd_local.load(ctx=4096)
files = sum(part.file.size for part in (engine._loaded.target, engine._loaded.draft))
caches = sum(context.plan.cache_bytes for context in engine.contexts.values())
points = {}
for i in range(1, 201):
    prompt = " ".join(rng.choice(["alpha", "beta", "gamma", "delta"]) for _ in range(rng.randrange(1, 60)))
    result = engine.generate(prompt, Settings(seed=i, draft_tokens=4, max_tokens=rng.randrange(1, 6)))
    del result
    if i in (5, 50, 200): points[i] = rss()
print(json.dumps({"files": files, "caches": caches, "rss": points}))
"""


def test_memory_stays_flat_and_within_its_bounds():
    """Resident memory over 200 requests of random length, in a process of its own."""
    ended = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, encoding="utf-8", check=True)
    found = json.loads(ended.stdout.splitlines()[-1])
    rss = {int(i): size for i, size in found["rss"].items()}
    assert rss[50] <= 1.02 * rss[5]
    assert rss[200] <= 1.01 * rss[50]
    assert rss[200] <= found["files"] + found["caches"] + 350 * 2**20
