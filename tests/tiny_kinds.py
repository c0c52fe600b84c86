"""The tensors and hyperparameters that each tiny architecture needs, and the random numbers that fill them.

llama   plain attention
gemma3  every other layer attends to a sliding window only
mamba   recurrent: no attention at all
jamba   hybrid of mamba and attention, for which llama.cpp keeps no snapshots
lfm2    hybrid of short convolutions and attention, with snapshots
qwen35  hybrid of gated delta nets and attention, with snapshots
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import gguf
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from tests.tiny import Tiny

Array = NDArray[np.float32]
SSM_STATE, SSM_RANK, CONV = 16, 4, 4


class Weights:
    """Draws matrices: `matrix(n_out, n_in, gain)` turns unit variance into variance gain**2."""

    def __init__(self, tiny: Tiny, stops: Sequence[int]) -> None:
        self.tiny = tiny
        self._stops = stops
        self._own = np.random.default_rng(tiny.seed)
        self._other = np.random.default_rng(tiny.noise_seed)

    def normal(self, *shape: int) -> Array:
        own, share = self._own.standard_normal(shape), self.tiny.noise
        if share:
            own = np.sqrt(1.0 - share) * own + np.sqrt(share) * self._other.standard_normal(shape)
        return own.astype(np.float32)

    def matrix(self, n_out: int, n_in: int, gain: float = 1.0) -> Array:
        return self.normal(n_out, n_in) * np.float32(gain / np.sqrt(n_in))

    def residual(self, n_in: int, gain: float = 0.7) -> Array:
        """A matrix that writes into the residual stream; channel 0 stays as the embedding set it."""
        matrix = self.matrix(self.tiny.n_embd, n_in, gain)
        matrix[0] = 0.0
        return matrix

    def embedding(self, scale: float = 1.0) -> Array:
        """(V, n_embd); channel 0 is constant, so that the output matrix can carry a bias there."""
        table = self.normal(self.tiny.n_vocab, self.tiny.n_embd)
        table[:, 0] = 2.0
        return table * np.float32(scale)

    def output(self) -> Array:
        """(V, n_embd)."""
        table = self.matrix(self.tiny.n_vocab, self.tiny.n_embd, self.tiny.spread)
        table[:, 0] = 0.0
        table[list(self._stops), 0] = self.tiny.stop_bias
        return table

    def norm(self, n: int, first: float = 1.0) -> Array:
        weight = np.ones(n, dtype=np.float32)
        weight[0] = first
        return weight


class Blocks:
    """Writes the tensors of one layer after the other."""

    def __init__(self, writer: gguf.GGUFWriter, tiny: Tiny, weights: Weights) -> None:
        self.writer, self.tiny, self.w = writer, tiny, weights
        self.head = tiny.n_embd // tiny.n_head

    def add(self, name: str, tensor: Array) -> None:
        self.writer.add_tensor(name, tensor)

    def attention(self, i: int, q_rows: int = 0) -> None:
        tiny, w, d = self.tiny, self.w, self.tiny.n_embd
        self.add(f"blk.{i}.attn_q.weight", w.matrix(q_rows or tiny.n_head * self.head, d, 2.0))
        self.add(f"blk.{i}.attn_k.weight", w.matrix(tiny.n_head_kv * self.head, d))
        self.add(f"blk.{i}.attn_v.weight", w.matrix(tiny.n_head_kv * self.head, d))
        self.add(f"blk.{i}.attn_output.weight", w.residual(tiny.n_head * self.head, 1.5))

    def head_norms(self, i: int) -> None:
        self.add(f"blk.{i}.attn_q_norm.weight", 2.0 * self.w.norm(self.head, 1.0))
        self.add(f"blk.{i}.attn_k_norm.weight", self.w.norm(self.head))

    def feed_forward(self, i: int) -> None:
        d, n_ff = self.tiny.n_embd, self.tiny.n_ff
        self.add(f"blk.{i}.ffn_gate.weight", self.w.matrix(n_ff, d))
        self.add(f"blk.{i}.ffn_up.weight", self.w.matrix(n_ff, d))
        self.add(f"blk.{i}.ffn_down.weight", self.w.residual(n_ff))

    def norm(self, name: str, first: float = 1.0) -> None:
        self.add(name, self.w.norm(self.tiny.n_embd, first))

    def mamba(self, i: int) -> None:
        w, d = self.w, self.tiny.n_embd
        inner, block = 2 * d, f"blk.{i}."
        self.add(block + "ssm_in.weight", w.matrix(2 * inner, d))
        self.add(block + "ssm_conv1d.weight", w.matrix(inner, CONV, 1.5))
        self.add(block + "ssm_conv1d.bias", 0.1 * w.normal(inner))
        self.add(block + "ssm_x.weight", w.matrix(SSM_RANK + 2 * SSM_STATE, inner, 1.5))
        self.add(block + "ssm_dt.weight", w.matrix(inner, SSM_RANK))
        self.add(block + "ssm_dt.bias", w.normal(inner) - np.float32(2.0))  # small steps: a long memory
        self.add(block + "ssm_a", -np.exp(0.5 * w.normal(inner, SSM_STATE)))
        self.add(block + "ssm_d", w.norm(inner))
        self.add(block + "ssm_out.weight", w.residual(inner, 1.5))


def _open(blocks: Blocks, scale: float = 1.0, kv: int | list[int] | None = None, heads: bool = True) -> None:
    """What all kinds share: sizes and the embedding."""
    writer, tiny = blocks.writer, blocks.tiny
    writer.add_head_count(tiny.n_head if heads else 0)
    writer.add_head_count_kv(tiny.n_head_kv if kv is None else kv)
    writer.add_feed_forward_length(tiny.n_ff if heads else 0)
    writer.add_layer_norm_rms_eps(1e-5)
    blocks.add("token_embd.weight", blocks.w.embedding(scale))


def _close(blocks: Blocks, norm: str = "output_norm.weight") -> None:
    blocks.norm(norm)
    blocks.add("output.weight", blocks.w.output())


def _ssm(writer: gguf.GGUFWriter, inner: int) -> None:
    writer.add_ssm_conv_kernel(CONV)
    writer.add_ssm_inner_size(inner)
    writer.add_ssm_state_size(SSM_STATE)
    writer.add_ssm_time_step_rank(SSM_RANK)


def _llama(blocks: Blocks) -> None:
    _open(blocks)
    blocks.writer.add_rope_dimension_count(blocks.head)
    for i in range(blocks.tiny.n_layer):
        blocks.norm(f"blk.{i}.attn_norm.weight")
        blocks.attention(i)
        blocks.norm(f"blk.{i}.ffn_norm.weight")
        blocks.feed_forward(i)
    _close(blocks)


def _gemma3(blocks: Blocks) -> None:
    tiny = blocks.tiny
    _open(blocks, scale=tiny.n_embd**-0.5)  # llama.cpp multiplies by sqrt(n_embd)
    blocks.writer.add_key_length(blocks.head)
    blocks.writer.add_value_length(blocks.head)
    blocks.writer.add_sliding_window(tiny.window)
    blocks.writer.add_uint32("gemma3.attention.sliding_window_pattern", 2)
    for i in range(tiny.n_layer):
        blocks.norm(f"blk.{i}.attn_norm.weight")
        blocks.attention(i)
        blocks.head_norms(i)
        blocks.norm(f"blk.{i}.post_attention_norm.weight", first=0.0)
        blocks.norm(f"blk.{i}.ffn_norm.weight")
        blocks.feed_forward(i)
        blocks.norm(f"blk.{i}.post_ffw_norm.weight", first=0.0)
    _close(blocks)


def _mamba(blocks: Blocks) -> None:
    _open(blocks, kv=0, heads=False)
    _ssm(blocks.writer, 2 * blocks.tiny.n_embd)
    for i in range(blocks.tiny.n_layer):
        blocks.norm(f"blk.{i}.attn_norm.weight")
        blocks.mamba(i)
    _close(blocks)


def _jamba(blocks: Blocks) -> None:
    tiny, w = blocks.tiny, blocks.w
    _open(blocks, kv=_alternating(tiny))
    _ssm(blocks.writer, 2 * tiny.n_embd)
    for i in range(tiny.n_layer):
        blocks.norm(f"blk.{i}.attn_norm.weight")
        if i % 2:
            blocks.attention(i)
        else:
            blocks.mamba(i)
            blocks.add(f"blk.{i}.ssm_dt_norm.weight", w.norm(SSM_RANK))
            blocks.add(f"blk.{i}.ssm_b_norm.weight", w.norm(SSM_STATE))
            blocks.add(f"blk.{i}.ssm_c_norm.weight", w.norm(SSM_STATE))
        blocks.norm(f"blk.{i}.ffn_norm.weight")
        blocks.feed_forward(i)
    _close(blocks)


def _lfm2(blocks: Blocks) -> None:
    tiny, d = blocks.tiny, blocks.tiny.n_embd
    _open(blocks, kv=_alternating(tiny))
    blocks.writer.add_shortconv_l_cache(CONV)
    for i in range(tiny.n_layer):
        blocks.norm(f"blk.{i}.attn_norm.weight")
        if i % 2:
            blocks.attention(i)
            blocks.head_norms(i)
        else:
            blocks.add(f"blk.{i}.shortconv.conv.weight", blocks.w.matrix(d, CONV, 1.5))
            blocks.add(f"blk.{i}.shortconv.in_proj.weight", blocks.w.matrix(3 * d, d))
            blocks.add(f"blk.{i}.shortconv.out_proj.weight", blocks.w.residual(d, 1.5))
        blocks.norm(f"blk.{i}.ffn_norm.weight")
        blocks.feed_forward(i)
    _close(blocks, "token_embd_norm.weight")


def _qwen35(blocks: Blocks) -> None:
    tiny, w, d = blocks.tiny, blocks.w, blocks.tiny.n_embd
    groups, inner = 2, SSM_RANK * SSM_STATE
    _open(blocks)
    _ssm(blocks.writer, inner)
    blocks.writer.add_ssm_group_count(groups)
    blocks.writer.add_key_length(blocks.head)
    blocks.writer.add_value_length(blocks.head)
    blocks.writer.add_rope_dimension_count(blocks.head)
    blocks.writer.add_rope_dimension_sections([3, 3, 2, 0])
    blocks.writer.add_uint32("qwen35.full_attention_interval", 2)
    channels = 2 * groups * SSM_STATE + inner
    for i in range(tiny.n_layer):
        block = f"blk.{i}."
        blocks.norm(block + "attn_norm.weight")
        if i % 2:
            blocks.attention(i, q_rows=2 * tiny.n_head * blocks.head)  # queries and their gates
            blocks.head_norms(i)
        else:
            blocks.add(block + "attn_qkv.weight", w.matrix(channels, d))
            blocks.add(block + "attn_gate.weight", w.matrix(inner, d))
            blocks.add(block + "ssm_conv1d.weight", w.matrix(channels, CONV, 1.5))
            blocks.add(block + "ssm_dt.bias", w.normal(SSM_RANK) - np.float32(2.0))
            blocks.add(block + "ssm_a", -np.exp(0.5 * w.normal(SSM_RANK)))
            blocks.add(block + "ssm_beta.weight", w.matrix(SSM_RANK, d))
            blocks.add(block + "ssm_alpha.weight", w.matrix(SSM_RANK, d))
            blocks.add(block + "ssm_norm.weight", w.norm(SSM_STATE))
            blocks.add(block + "ssm_out.weight", w.residual(inner, 1.5))
        blocks.norm(block + "post_attention_norm.weight")
        blocks.feed_forward(i)
    _close(blocks)


def _alternating(tiny: Tiny) -> list[int]:
    """Key-value heads by layer: none in the recurrent ones."""
    return [tiny.n_head_kv if i % 2 else 0 for i in range(tiny.n_layer)]


KINDS: dict[str, Callable[[Blocks], None]] = {
    "llama": _llama,
    "gemma3": _gemma3,
    "mamba": _mamba,
    "jamba": _jamba,
    "lfm2": _lfm2,
    "qwen35": _qwen35,
}
