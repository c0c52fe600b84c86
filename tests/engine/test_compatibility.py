"""Which drafts can serve which targets, and how a refusal is told."""

from __future__ import annotations

import numpy as np
import pytest

from nsd_local.engine.compatibility import check_pair
from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions
from nsd_local.errors import PairError
from tests import tiny
from tests.tiny import Tiny, special


def refusal(target, draft) -> str:
    with Model.load(target) as t, Model.load(draft) as d, pytest.raises(PairError) as caught:
        check_pair(t, d)
    assert caught.value.exit_code == 3
    return str(caught.value)


def warnings(target, draft) -> list[str]:
    with Model.load(target) as t, Model.load(draft) as d:
        return check_pair(t, d)


def patched(source, destination, old: bytes, new: bytes):
    """A copy of a file in which `old` occurs once and is now `new`."""
    data = source.read_bytes()
    assert data.count(old) == 1
    destination.write_bytes(data.replace(old, new))
    return destination


def test_a_model_can_draft_for_itself(tiny_target, tiny_draft):
    assert warnings(tiny_target, tiny_target) == []
    assert warnings(tiny_target, tiny_draft) == []


def test_another_vocabulary_is_refused_with_both_sizes(tiny_target, tiny_model):
    reason = refusal(tiny_target, tiny_model(Tiny(n_vocab=320 + 129)))
    assert f"cannot draft for {tiny_target.name}. " in reason  # the file's name, not what its header says
    assert "size" in reason
    assert "320" in reason
    assert "449" in reason


def test_flipped_add_bos_is_named(tiny_target, tmp_path):
    flag = b"tokenizer.ggml.add_bos_token" + (7).to_bytes(4, "little")
    draft = patched(tiny_target, tmp_path / "d.gguf", flag + b"\0", flag + b"\1")
    reason = refusal(tiny_target, draft)
    assert "add_bos" in reason
    assert "target no, draft yes" in reason


def test_another_bos_token_is_named(tiny_model, tmp_path):
    target = tiny_model(Tiny(add_bos=True))
    key = b"tokenizer.ggml.bos_token_id" + (4).to_bytes(4, "little")
    ids = [special(text).to_bytes(4, "little") for text in ("<|endoftext|>", "<|im_start|>")]
    draft = patched(target, tmp_path / "d.gguf", key + ids[0], key + ids[1])
    reason = refusal(target, draft)
    assert "bos token" in reason
    assert str(special("<|endoftext|>")) in reason
    assert str(special("<|im_start|>")) in reason


def test_another_text_is_named_with_its_id(tiny_target, tmp_path):
    draft = patched(tiny_target, tmp_path / "d.gguf", b"[PAD300]", b"[pad300]")
    reason = refusal(tiny_target, draft)
    assert "text of token 300" in reason
    assert "'[PAD300]'" in reason
    assert "'[pad300]'" in reason


def test_texts_of_the_first_ids_may_differ(tiny_target, tmp_path):
    """llama.cpp compares from id 5 on: the first ids are often special, and written differently."""
    token = tiny.alphabet()[3].encode()
    length = len(token).to_bytes(8, "little")
    neighbours = [tiny.alphabet()[i].encode() for i in (2, 4)]
    around = [len(t).to_bytes(8, "little") + t for t in neighbours]
    old = around[0] + length + token + around[1]
    assert len(token) == 2
    draft = patched(tiny_target, tmp_path / "d.gguf", old, around[0] + length + "Ω".encode() + around[1])
    assert warnings(tiny_target, draft) == []


@pytest.mark.parametrize("sizes", [(448, 320), (320, 448)])
def test_padding_is_accepted(tiny_model, sizes):
    target, draft = (tiny_model(Tiny(n_vocab=size)) for size in sizes)
    assert warnings(target, draft) == []
    with Model.load(draft) as model, Context(model, ContextOptions(n_ctx=256)) as context:
        row = context.evaluate([min(sizes) - 1], rows=1)[0]
        assert row.shape == (sizes[1],)
        assert np.isfinite(row).all()


def test_other_end_tokens_are_warned_about(tiny_target, tmp_path):
    key = b"tokenizer.ggml.eos_token_id" + (4).to_bytes(4, "little")
    end = special("<|im_end|>").to_bytes(4, "little")
    draft = patched(tiny_target, tmp_path / "d.gguf", key + end, key + (65).to_bytes(4, "little"))
    found = warnings(tiny_target, draft)
    assert len(found) == 1
    assert "only the draft ends at 'A'" in found[0]
