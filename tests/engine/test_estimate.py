"""Estimates of memory against what llama.cpp really allocates."""

from __future__ import annotations

import re
from math import inf

import pytest

from nsd_local.engine import estimate, library
from nsd_local.engine.context import Context
from nsd_local.engine.gguf_file import read_gguf
from nsd_local.engine.memory_free import as_size, available_memory
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions
from tests.tiny import Tiny

KINDS = ["llama", "gemma3", "mamba", "jamba", "lfm2", "qwen35"]
ROUNDING = 0.011 * 2**20  # llama.cpp's log gives MiB with two digits


def allocated(mark: int, what: str) -> float:
    """Bytes of the buffers named `what` in llama.cpp's log."""
    found = [re.search(rf"{what} buffer size = *([\d.]+) MiB", line) for line in library.log_since(mark)]
    return sum(float(line[1]) for line in found if line) * 2**20


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("types", [("f16", "f16"), ("f32", "f16")])
@pytest.mark.parametrize("swa_full", [True, False])
@pytest.mark.parametrize("snapshots", [0, 8])
def test_cache_is_estimated_exactly(tiny_model, kind, types, swa_full, snapshots):
    options = ContextOptions(
        n_ctx=3000, n_ubatch=64, cache_type_k=types[0], cache_type_v=types[1], swa_full=swa_full, snapshots=snapshots
    )
    with Model.load(tiny_model(Tiny(kind=kind, n_layer=4))) as model:
        mark = library.log_mark()
        with Context(model, options) as context:
            real = allocated(mark, "KV") + allocated(mark, "RS")
            computing = allocated(mark, "compute")
            guess = estimate.cache_bytes(
                model.file,
                3000,
                type_k=types[0],
                type_v=types[1],
                swa_full=swa_full,
                n_ubatch=64,
                snapshots=context.rollback.snapshots,
            )
        assert abs(guess - real) <= 3 * ROUNDING
        assert computing <= estimate.compute_bytes(model.file, 3000, 64, options.max_outputs, flash_attention=False)


def test_longest_context_fits_and_one_more_does_not(tiny_target):
    file = read_gguf(tiny_target)
    for budget in (10**6, 10**7, 10**9):
        n = estimate.longest_context(file, budget)
        assert estimate.cache_bytes(file, n) <= budget < estimate.cache_bytes(file, n + 256)
    assert estimate.longest_context(file, 100) == 0


def test_a_recurrent_model_takes_the_same_for_any_length(tiny_model):
    file = read_gguf(tiny_model(Tiny(kind="mamba")))
    assert estimate.cache_bytes(file, 256) == estimate.cache_bytes(file, 10**6) == estimate.state_bytes(file)


def test_free_memory_respects_a_container(tmp_path, monkeypatch):
    monkeypatch.setattr("nsd_local.engine.memory_free._CGROUP", tmp_path)
    outside = available_memory()
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("500000000\n")
    assert available_memory() == pytest.approx(outside, rel=0.2)
    (tmp_path / "memory.max").write_text("800000000\n")
    assert available_memory() == 300_000_000
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 100000000\n")
    assert available_memory() == 400_000_000
    (tmp_path / "memory.max").write_text("100\n")
    assert available_memory() == 0
    assert available_memory() < inf


@pytest.mark.parametrize(("n", "text"), [(0, "0 MiB"), (1 << 30, "1,024 MiB"), (25 << 29, "12.5 GiB")])
def test_sizes_for_people(n, text):
    assert as_size(n) == text
