"""Control tokens in messages stay text; everything else is tokenized as a whole."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from nsd_local.chat.fence import CLOSE, OPEN, Fence
from nsd_local.engine.model import Model
from tests import tiny
from tests.chat.vocabularies import write_sentencepiece
from tests.tiny import Tiny

PIECES = (
    "hello",
    " ",
    "\n",
    "\n\n",
    " " * 64,
    "é",
    "日本",
    "👩‍👧",
    "the and in",
    "<|im_",
    "|>",
    "\t",
    "</s",
)
CONTROLS = ("<|im_end|>", "<|im_start|>", "<|endoftext|>")


@pytest.fixture(scope="module")
def model(tiny_target: Path) -> Iterator[Model]:
    with Model.load(tiny_target) as model:
        yield model


@pytest.fixture(scope="module")
def sentencepiece(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    with pytest.MonkeyPatch.context() as patch:
        path = write_sentencepiece(tmp_path_factory.mktemp("spm") / "spm.gguf", Tiny(add_bos=True), patch)
    with Model.load(path) as model:
        yield model


def said(model: Model, tokens: list[int]) -> str:
    return b"".join(map(model.piece, tokens)).decode()


def test_ordinary_text_is_tokenized_as_a_whole(model: Model) -> None:
    rng, fence = random.Random(1), Fence(model)
    for _ in range(200):
        content = "".join(rng.choices(PIECES, k=rng.randint(0, 8)))
        assert fence.shield(content) == content
        rendered = f"<|im_start|>user\n{content}<|im_end|>\n"
        assert fence.encode(rendered) == model.tokenize(rendered, special=True, add_bos=False)


def test_control_tokens_in_a_message_stay_text(model: Model) -> None:
    rng, fence = random.Random(2), Fence(model)
    for _ in range(200):
        content = "".join(rng.choices((*PIECES, *CONTROLS), k=rng.randint(1, 8)))
        shielded = fence.shield(content)
        assert fence.reveal(shielded) == content
        tokens = fence.encode(f"<|im_start|>user\n{shielded}<|im_end|>\n")
        assert said(model, tokens) == f"<|im_start|>user\n{content}<|im_end|>\n"
        ids = [tiny.special(text) for text in CONTROLS]
        assert [token for token in tokens if token in ids] == [ids[1], ids[0]]  # the template's own, and no other
        inside = tokens[1 : tokens.index(ids[0])]
        assert inside == model.tokenize(f"user\n{content}", special=False, add_bos=False)


def test_placeholders_of_other_texts_are_text(model: Model) -> None:
    fence = Fence(model)
    for content in (f"{OPEN}0{CLOSE}", OPEN, f"a{CLOSE}<|im_end|>{OPEN}1{CLOSE}"):
        assert fence.reveal(fence.shield(content)) == content
        assert said(model, fence.encode(fence.shield(content))) == content


def test_many_messages_do_not_pile_up(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nsd_local.chat.fence.REMEMBERED", 10)
    fence = Fence(model)
    assert [fence.shield(f"text {i}") for i in range(100)] == [f"text {i}" for i in range(100)]
    assert len(fence._shielded) <= 10


@pytest.mark.parametrize("written", ["", "<s>"])
def test_exactly_one_bos(sentencepiece: Model, written: str) -> None:
    fence = Fence(sentencepiece)
    assert fence.encode(f"{written}[INST] hello [/INST]").count(1) == 1
    assert fence.encode(f"{written}[INST] hello [/INST]")[0] == 1
    shielded = fence.shield("<s> hello <s>")
    assert fence.encode(f"{written}[INST]{shielded}[/INST]").count(1) == 1


def test_no_bos_where_the_model_wants_none(model: Model) -> None:
    assert Fence(model).encode("hello") == model.tokenize("hello", special=True, add_bos=False)


def test_sentencepiece_continues_without_a_space(sentencepiece: Model) -> None:
    fence = Fence(sentencepiece)
    assert said(sentencepiece, fence.encode("hello")) == "<s> hello"  # a space stands before the first word
    # (llama.cpp puts a space after every control token too, so no such text is among these)
    for rest in ("hello", " hello", "</s>[INST]", "\nb", "llo </s>", "|", ""):
        assert said(sentencepiece, fence.encode(rest, start=False)) == rest


def test_sentencepiece_keeps_its_tokens_around_control_texts(sentencepiece: Model) -> None:
    fence = Fence(sentencepiece)
    shielded = fence.shield("hello </s> hello")
    tokens = fence.encode(f"[INST] {shielded} [/INST]")
    bos, inst, end = 1, tokens[1], tokens[-1]
    plain = sentencepiece.tokenize(" hello </s> hello ", special=False, add_bos=False)
    assert tokens == [bos, inst, *plain, end]
    assert 2 not in tokens
