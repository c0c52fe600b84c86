"""Evaluation: limits that would end the process, buffers that must stay small, choices with reasons."""

from __future__ import annotations

import numpy as np
import psutil
import pytest

from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions
from nsd_local.errors import Cancelled, DecodeError, ModelError, UsageError
from tests.tiny import Tiny

EXACT = {"cache_type_k": "f32", "cache_type_v": "f32"}
CLOSE = 1e-4  # logits (of standard deviation 2.5) evaluated in batches of other widths


def text(n: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, 270, n).tolist()


def test_rows_are_those_of_the_last_tokens(make):
    a, b = make(n_ctx=256), make(n_ctx=256)
    tokens = text(20)
    rows = a.evaluate(tokens, rows=3).copy()
    assert rows.shape == (3, 320)
    assert rows.dtype == np.float32
    for i, end in enumerate((18, 19, 20)):
        b.rewind(0)
        assert abs(b.evaluate(tokens[:end], rows=1)[0] - rows[i]).max() < CLOSE
    assert a.tokens == tokens


def test_logits_are_a_view_of_llama_cpps_buffer(make):
    context = make(n_ctx=256)
    first = context.evaluate([1, 2], rows=1)
    before = first.copy()
    context.evaluate([3, 4], rows=1)
    assert not first.flags.owndata
    assert not (first == before).all()


def test_no_rows_and_no_tokens(make):
    context = make(n_ctx=256)
    assert context.evaluate([1, 2, 3]).shape == (0, 320)
    assert context.evaluate([]).shape == (0, 320)
    assert context.tokens == [1, 2, 3]


@pytest.mark.parametrize("kind", ["lfm2", "mamba"])
def test_long_prompt_is_cut_into_batches(make, kind):
    """8,000 tokens with batches of 512: one llama_decode of all would end the process."""
    context, whole = make(kind, n_ctx=8192, n_batch=512, **EXACT), make(kind, n_ctx=8192, n_batch=8192, **EXACT)
    tokens = text(8_000)
    assert abs(context.evaluate(tokens, rows=1) - whole.evaluate(tokens, rows=1)).max() < CLOSE
    assert context.tokens == tokens


@pytest.mark.parametrize("rows", [1, 5, 8, 9, 30, 64])
def test_more_rows_than_the_output_buffer_holds_are_gathered(make, rows):
    small, large = make(n_ctx=256, max_outputs=8, n_batch=16), make(n_ctx=256, max_outputs=100, n_batch=100)
    tokens = text(64)
    assert abs(small.evaluate(tokens, rows=rows) - large.evaluate(tokens, rows=rows)).max() < CLOSE
    assert small.tokens == tokens


@pytest.mark.parametrize("token", [-1, 320, 2**31 - 1])
def test_unknown_tokens_are_refused(make, token):
    context = make(n_ctx=256)
    context.evaluate([1, 2])
    with pytest.raises(DecodeError, match=f"Token {token} does not exist"):
        context.evaluate([3, token], rows=1)
    assert context.tokens == [1, 2]
    context.evaluate([3], rows=1)


def test_a_full_context_says_so(make):
    context = make(n_ctx=300)  # llama.cpp rounds up to 512; what was asked for counts
    context.evaluate(text(300), rows=1)
    with pytest.raises(DecodeError, match="300 of 300"):
        context.evaluate([1], rows=1)
    assert len(context.tokens) == 300


def test_more_rows_than_tokens_are_refused(make):
    with pytest.raises(DecodeError, match="3 rows"):
        make(n_ctx=256).evaluate([1, 2], rows=3)


def test_no_buffer_grows_with_context_times_vocabulary(tiny_model):
    """32,768 tokens of 151,936 logits each would be 19 GB; what is needed is a few rows."""
    path = tiny_model(Tiny(n_vocab=151_936, n_embd=32, n_layer=1, n_ff=32))
    with Model.load(path) as model:
        before = psutil.Process().memory_info().rss
        with Context(model, ContextOptions(n_ctx=32_768)) as context:
            context.evaluate(text(600), rows=17)
            grown = psutil.Process().memory_info().rss - before
    assert grown < 300 * 2**20


def test_a_context_beyond_all_memory_gets_a_suggestion(tiny_target):
    with Model.load(tiny_target) as model:
        with pytest.raises(ModelError) as caught:
            Context(model, ContextOptions(n_ctx=1_000_000_000))
        assert "GiB" in caught.value.what
        assert "Try --ctx 8192" in caught.value.do
        Context(model, ContextOptions(n_ctx=256)).close()


def test_automatic_context_says_why(make, monkeypatch):
    choice = make().choices["ctx"]
    assert choice.value == "8,192"
    assert "model limit 8,192" in choice.reason
    assert make(tiny=Tiny(n_ctx_train=512)).n_ctx == 512
    assert "as asked; beyond the model's 512" in make(tiny=Tiny(n_ctx_train=512), n_ctx=1024).choices["ctx"].reason
    monkeypatch.setattr("nsd_local.engine.context_plan.available_memory", lambda: 2 * 256 * 1024)
    assert make().n_ctx == 1024  # 256 bytes per token, half of the memory


def test_batches_and_threads_are_chosen_with_reasons(make):
    many_heads = Tiny(n_head=16, n_head_kv=1)  # scores of 16 heads x 128 tokens x 8,192: 64 MiB
    assert make(n_ctx=512).plan.n_ubatch == 128
    assert make(tiny=many_heads, n_ctx=8192).plan.n_ubatch == 64
    assert make(tiny=many_heads, n_ctx=8192, flash_attention=True).plan.n_ubatch == 512
    assert make(tiny=many_heads, n_ctx=8192, n_ubatch=100).plan.n_ubatch == 100
    assert make(n_ctx=512).plan.threads == 1  # a tiny model
    assert make(n_ctx=512, threads=2).plan.threads == 2
    assert all(choice.reason for choice in make(n_ctx=512).choices.values())


def test_quantized_values_need_flash_attention(make):
    assert make(tiny=Tiny(n_embd=128), n_ctx=256, cache_type_v="q8_0").choices["flash attention"].value == "on"
    with pytest.raises(UsageError, match="needs flash attention"):
        make(n_ctx=256, cache_type_v="q8_0", flash_attention=False)


def test_llama_cpps_reason_is_told_when_it_refuses(make):
    with pytest.raises(ModelError, match="does not divide"):  # heads of 16 values, blocks of 32
        make(n_ctx=256, cache_type_v="q8_0")


@pytest.mark.parametrize("type_", ["f32", "f16", "bf16", "q8_0", "q4_0"])
def test_cache_types_work(make, type_):
    tiny = Tiny(n_embd=128)  # heads of 32: quantized caches come in blocks of 32
    context = make(tiny=tiny, n_ctx=256, cache_type_k=type_, cache_type_v=type_)
    exact = make(tiny=tiny, n_ctx=256, **EXACT)
    tokens = text(50)
    difference = abs(context.evaluate(tokens, rows=1) - exact.evaluate(tokens, rows=1)).max()
    assert difference < {"f32": 1e-3, "f16": 0.05, "bf16": 0.3, "q8_0": 0.3, "q4_0": 3.0}[type_]


@pytest.mark.parametrize(
    "options",
    [{"n_ctx": 0}, {"threads": 0}, {"n_batch": 0}, {"cache_type_k": "q3"}, {"snapshots": 65}, {"n_ctx": 2**31}],
)
def test_options_are_checked(options):
    with pytest.raises(UsageError):
        ContextOptions(**options)


def test_prefill_reads_only_what_is_new(make):
    context = make(n_ctx=2048)
    tokens = text(700)
    seen: list[tuple[int, int]] = []
    assert context.prefill(tokens, progress=lambda done, total: seen.append((done, total))) == 700
    assert seen == [(256, 700), (512, 700), (700, 700)]
    assert context.prefill(tokens) == 0
    assert context.prefill([*tokens, 5, 6]) == 2
    edited = [*tokens[:400], *text(50, seed=1)]
    assert context.prefill(edited) == 50
    assert context.tokens == edited


def test_prefill_stops_between_chunks(make):
    context = make(n_ctx=2048)
    tokens = text(1_000)
    with pytest.raises(Cancelled):
        context.prefill(tokens, cancelled=lambda: len(context.tokens) >= 512)
    assert context.tokens == tokens[:512]
    assert context.prefill(tokens) == 488


@pytest.mark.parametrize("kind", ["llama", "gemma3", "mamba", "jamba", "lfm2", "qwen35"])
@pytest.mark.parametrize("stop", [True, KeyboardInterrupt, ValueError])
def test_a_computation_is_stopped_in_the_middle(make, kind, stop, monkeypatch):
    """llama.cpp asks before every operation; memory and tokens agree afterwards, and the next prefill is right."""
    monkeypatch.setattr("nsd_local.engine.abort._INTERVAL", 0.0)
    context, fresh = make(kind, n_ctx=1024, **EXACT), make(kind, n_ctx=1024, **EXACT)
    tokens = text(600)
    context.prefill(tokens[:100])
    asked = 0

    def cancelled() -> bool:
        nonlocal asked
        asked += 1
        if asked > 40 and stop is not True:
            raise stop
        return asked > 40

    with pytest.raises(Cancelled if stop is True else stop):
        context.prefill(tokens, cancelled=cancelled)
    assert context.tokens == tokens[: len(context.tokens)]
    assert len(context.tokens) < 600
    context.prefill(tokens[:-1])
    row = context.evaluate(tokens[-1:], rows=1)
    assert abs(row - fresh.evaluate(tokens, rows=1)).max() < (1e-2 if kind == "gemma3" else CLOSE)
