"""Tiny models with other vocabularies than `tests.tiny` writes on its own."""

from __future__ import annotations

import string
from pathlib import Path

import gguf
import pytest

from tests import tiny
from tests.tiny import Tiny

SPACE = "\u2581"  # how SentencePiece writes a space
WORDS = (SPACE, SPACE + "a", SPACE + "h", "he", "ll", "lo", SPACE + "b", "in", "st", "[", "]", "/", "\n")


def write_sentencepiece(path: Path, model: Tiny, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A llama-like model with a SentencePiece vocabulary: <unk>, <s>, </s>, [INST], bytes, letters, some pairs."""

    def tokenizer(writer: gguf.GGUFWriter, model: Tiny) -> None:
        kinds = gguf.TokenType
        rows = [("<unk>", 0.0, kinds.UNKNOWN), ("<s>", 0.0, kinds.CONTROL), ("</s>", 0.0, kinds.CONTROL)]
        rows += [(f"<0x{byte:02X}>", 0.0, kinds.BYTE) for byte in range(256)]
        rows += [("[INST]", 0.0, kinds.CONTROL), ("[/INST]", 0.0, kinds.CONTROL)]
        texts = [*string.ascii_lowercase, *(word for word in WORDS if word not in string.ascii_lowercase)]
        rows += [(text, -float(i), kinds.NORMAL) for i, text in enumerate(texts)]
        rows += [(f"[PAD{i}]", -1e3, kinds.UNUSED) for i in range(len(rows), model.n_vocab)]
        writer.add_tokenizer_model("llama")
        writer.add_token_list([text for text, _, _ in rows])
        writer.add_token_scores([score for _, score, _ in rows])
        writer.add_token_types([int(kind) for _, _, kind in rows])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)
        writer.add_add_bos_token(model.add_bos)
        if model.template is not None:
            writer.add_chat_template(model.template)

    monkeypatch.setattr(tiny, "_write_tokenizer", tokenizer)
    return tiny.write(path, model)
