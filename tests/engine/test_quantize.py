"""Requantizing: smaller files that load, say where they come from, and appear only when they are complete."""

from __future__ import annotations

import pytest
from gguf import GGUFReader

from nsd_local.engine.compatibility import check_pair
from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions
from nsd_local.engine.quantize import PROVENANCE, quantize
from nsd_local.errors import Cancelled, ModelError, UsageError
from tests.tiny import Tiny


@pytest.mark.parametrize(("type_", "share"), [("Q4_0", 0.3), ("Q8_0", 0.4), ("F16", 0.6)])
def test_smaller_types(tiny_target, tmp_path, type_, share):
    made = quantize(tiny_target, tmp_path / "größer als" / f"{type_}.gguf", type_)
    assert made.stat().st_size < share * tiny_target.stat().st_size
    with Model.load(tiny_target) as whole, Model.load(made) as model:
        assert check_pair(whole, model) == []
        origin = str(model.file.metadata[PROVENANCE])
        assert origin.startswith(tiny_target.name)
        assert origin.endswith(f"to {type_}")
        with Context(whole, ContextOptions(n_ctx=256)) as a, Context(model, ContextOptions(n_ctx=256)) as b:
            difference = abs(a.evaluate([1, 2, 3], rows=1) - b.evaluate([1, 2, 3], rows=1)).max()
        assert 0 < difference < {"Q4_0": 4, "Q8_0": 0.3, "F16": 0.02}[type_]


def test_quantized_models_can_be_quantized_again(tiny_model, tmp_path):
    once = quantize(tiny_model(Tiny()), tmp_path / "a.gguf", "Q8_0")
    assert quantize(once, tmp_path / "b.gguf", "Q4_0").stat().st_size < once.stat().st_size


@pytest.mark.parametrize("type_", ["Q4_0", "IQ4_NL", "Q8_0"])
def test_a_whole_draft_has_one_type(tiny_target, tmp_path, type_):
    """llama.cpp keeps the output matrix at a higher precision, which costs a draft with a large vocabulary time."""
    made = quantize(tiny_target, tmp_path / "whole.gguf", type_, whole=True)
    types = {tensor.name: tensor.tensor_type.name for tensor in GGUFReader(made).tensors}
    assert {kind for name, kind in types.items() if name in ("output.weight", "token_embd.weight")} == {type_}
    with Model.load(made) as model, Context(model, ContextOptions(n_ctx=256)) as context:
        assert context.evaluate([1, 2, 3], rows=1).shape == (1, model.n_vocab)


def test_progress_is_told_and_may_stop_it(tiny_target, tmp_path):
    shares: list[float] = []
    quantize(tiny_target, tmp_path / "q.gguf", "Q4_0", progress=shares.append)
    assert shares
    assert shares[-1] <= 1.0

    def stop(_share: float) -> None:
        raise Cancelled("enough")

    with pytest.raises(Cancelled):
        quantize(tiny_target, tmp_path / "stopped.gguf", "Q4_0", progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["q.gguf"]


def test_failures_leave_nothing(tiny_target, tmp_path):
    with pytest.raises(UsageError, match="Q9_9"):
        quantize(tiny_target, tmp_path / "q.gguf", "Q9_9")
    with pytest.raises(ModelError, match="no file"):
        quantize(tmp_path / "none.gguf", tmp_path / "q.gguf", "Q4_0")
    text = tmp_path / "text.gguf"
    text.write_text("hello")
    with pytest.raises(ModelError, match="not a GGUF"):
        quantize(text, tmp_path / "q.gguf", "Q4_0")
    strange = tmp_path / "strange.gguf"
    strange.write_bytes(
        tiny_target.read_bytes().replace(
            b"general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0llama",
            b"general.architecture\x08\0\0\0\x05\0\0\0\0\0\0\0lllma",
        )
    )
    with pytest.raises(ModelError, match="could not be quantized"):
        quantize(strange, tmp_path / "q.gguf", "Q4_0")
    assert {path.name for path in tmp_path.iterdir()} == {"text.gguf", "strange.gguf"}
