"""Tiny random GGUF models, written by the tests and run through the real llama.cpp.

    path = tiny.write(folder / "target.gguf", Tiny(seed=1))
    draft = tiny.write(folder / "draft.gguf", Tiny(seed=1, noise=0.02))  # a relative of the target

Same settings, same bytes. The weights are scaled so that the next-token law is neither uniform nor a point
mass (logits have a standard deviation of about `spread`), and so that the past matters: a memory that is
wrong by one token shows up in the logits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import gguf
import numpy as np

from tests.tiny_kinds import KINDS, Blocks, Weights

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
STOPS = ("<|endoftext|>", "<|im_end|>")  # every one of them ends a generation
SPACE = "\u0120"  # how byte-level BPE writes a space
PAIRS = (
    [(SPACE * n, SPACE * n) for n in (1, 2, 4, 8, 16, 32)]  # pieces of 2..64 spaces
    + [("h", "e"), ("i", "n"), ("r", "e"), ("o", "n"), ("a", "n"), ("e", "r"), ("a", "t"), ("o", "r")]
    + [(SPACE, "t"), (SPACE, "a"), (SPACE + "t", "he"), ("in", "g"), ("an", "d"), (SPACE + "a", "nd")]
)
MIN_VOCAB = 256 + len(PAIRS) + len(SPECIALS)


@dataclass(frozen=True)
class Tiny:
    """What to write. Models are compatible; one of a smaller `n_vocab` lacks some padding ids."""

    kind: str = "llama"  # see tests/tiny_kinds.py
    n_vocab: int = 320
    n_ctx_train: int = 8192
    n_embd: int = 64
    n_layer: int = 2
    n_head: int = 4
    n_head_kv: int = 2
    n_ff: int = 128
    window: int = 24  # of gemma3's sliding window
    seed: int = 0
    noise: float = 0.0  # share of each weight replaced by another seed's: 0 the same model, 1 unrelated
    noise_seed: int = 1_000
    spread: float = 2.5  # standard deviation of the logits, about
    stop_bias: float = 0.0  # added to the logits of the end-of-generation tokens, about; -30 never ends
    add_bos: bool = False
    template: str | None = CHATML
    name: str = "tiny"


@cache
def alphabet() -> tuple[str, ...]:
    """The 256 printable characters of byte-level BPE, by byte value."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(256, 512))
    return tuple(chr(byte) if byte in printable else chr(next(others)) for byte in range(256))


def vocabulary(n_vocab: int) -> tuple[list[str], list[int]]:
    """Token texts and types: bytes, merged pairs, specials, padding."""
    if n_vocab < MIN_VOCAB:
        raise ValueError(f"n_vocab must be at least {MIN_VOCAB}")
    texts = [*alphabet(), *(a + b for a, b in PAIRS), *SPECIALS]
    types = [int(gguf.TokenType.NORMAL)] * (256 + len(PAIRS)) + [int(gguf.TokenType.CONTROL)] * len(SPECIALS)
    for i in range(len(texts), n_vocab):
        texts.append(f"[PAD{i}]")
        types.append(int(gguf.TokenType.UNUSED))
    return texts, types


def special(text: str) -> int:
    """Id of a special token, the same in every tiny model."""
    return 256 + len(PAIRS) + SPECIALS.index(text)


def write(path: Path, tiny: Tiny | None = None) -> Path:
    """Write the model; returns `path`."""
    tiny = tiny or Tiny()
    writer = gguf.GGUFWriter(path, tiny.kind)
    writer.add_name(tiny.name)
    writer.add_context_length(tiny.n_ctx_train)
    writer.add_embedding_length(tiny.n_embd)
    writer.add_block_count(tiny.n_layer)
    writer.add_vocab_size(tiny.n_vocab)
    KINDS[tiny.kind](Blocks(writer, tiny, Weights(tiny, [special(text) for text in STOPS])))
    _write_tokenizer(writer, tiny)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_tokenizer(writer: gguf.GGUFWriter, tiny: Tiny) -> None:
    texts, types = vocabulary(tiny.n_vocab)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(texts)
    writer.add_token_types(types)
    writer.add_token_merges([f"{a} {b}" for a, b in PAIRS])
    writer.add_bos_token_id(special("<|endoftext|>"))
    writer.add_eos_token_id(special("<|im_end|>"))
    writer.add_add_bos_token(tiny.add_bos)
    if tiny.template is not None:
        writer.add_chat_template(tiny.template)


def write_lora(path: Path, tiny: Tiny, seed: int, rank: int = 4) -> Path:
    """Write a LoRA adapter for a llama-like model: both attention projections of every layer."""
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(rank))
    for i in range(tiny.n_layer):
        for name in ("attn_q", "attn_output"):
            for part, shape in (("lora_a", (rank, tiny.n_embd)), ("lora_b", (tiny.n_embd, rank))):
                tensor = rng.standard_normal(shape).astype(np.float32) / np.float32(np.sqrt(tiny.n_embd))
                writer.add_tensor(f"blk.{i}.{name}.weight.{part}", tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
