"""How much memory a model and its context will take, from the header of the file alone.

Exact for the key-value caches of the common architectures (tested against what llama.cpp allocates), an upper bound
for models whose layers share or compress their caches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from nsd_local.engine.gguf_file import GgufFile
from nsd_local.engine.options import CacheType

# Every n-th layer attends to everything where the file does not say (llama.cpp's load_swa_pattern defaults).
_WINDOW_PATTERN = {"gemma2": 2, "gemma3": 6, "gemma3n": 5, "gpt-oss": 2, "cohere2": 4, "exaone4": 4, "olmo2": 4}
_PAD = 256  # llama.cpp rounds contexts and windows up to this many cells
_RECURRENT = ("mamba", "mamba2", "rwkv6", "rwkv7", "rwkv6qwen2", "arwkv7")
_OVERHEAD = 16 * 2**20  # scheduler, graph and small buffers of one context


@dataclass(frozen=True, slots=True)
class Layer:
    """What one layer keeps per token, or once."""

    keys: int  # numbers per token
    values: int
    windowed: bool
    state: int  # numbers kept once, however long the text (recurrent layers)


def layers(file: GgufFile) -> list[Layer]:
    """The memory of each layer."""
    n_layer = max(0, file.integer("block_count") - file.integer("nextn_predict_layers"))
    n_head, n_embd = max(1, _first(file, "attention.head_count", 1)), file.integer("embedding_length")
    key = file.integer("attention.key_length", n_embd // n_head)
    value = file.integer("attention.value_length", n_embd // n_head)
    result = []
    for i in range(n_layer):
        heads = 0 if file.architecture in _RECURRENT else _per_layer(file, "attention.head_count_kv", i, n_head)
        recurrent = heads == 0 or _recurrent(file, i)
        if recurrent and file.architecture != "falcon-h1":
            heads = 0
        state = _state(file) if recurrent or file.architecture == "falcon-h1" else 0
        result.append(Layer(heads * key, heads * value, _windowed(file, i), state))
    return result


def cache_bytes(
    file: GgufFile,
    n_ctx: int,
    *,
    type_k: CacheType = "f16",
    type_v: CacheType = "f16",
    swa_full: bool = True,
    n_ubatch: int = 512,
    snapshots: int = 0,
) -> int:
    """Bytes of the key-value cache and recurrent states for a context of `n_ctx` tokens."""
    cells = _padded(n_ctx)
    window = cells if swa_full else min(cells, _padded(file.integer("attention.sliding_window") + n_ubatch))
    total = 0.0
    for layer in layers(file):
        n = window if layer.windowed else cells
        total += n * (layer.keys * _width(type_k) + layer.values * _width(type_v))
        total += 4 * layer.state * (1 + snapshots)
    return math.ceil(total)


def state_bytes(file: GgufFile) -> int:
    """Bytes of the recurrent states of one moment: what a snapshot or a checkpoint costs."""
    return 4 * sum(layer.state for layer in layers(file))


def memory_kind(file: GgufFile) -> str:
    """What the header tells of going back, in the words of `MemoryVerdict`; llama.cpp decides it for a context."""
    found = layers(file)
    recurrent = [layer for layer in found if layer.state]
    if recurrent:
        kind = "hybrid" if any(layer.keys for layer in found) else "recurrent"
        return f"{kind}: going back takes a saved state, {state_bytes(file) / 2**20:,.1f} MiB each"
    if any(layer.windowed for layer in found):
        window = file.integer("attention.sliding_window")
        return f"window: sliding window of {window:,} tokens; with all tokens kept, any number can be taken back"
    return "plain: any number of tokens can be taken back"


def compute_bytes(file: GgufFile, n_ctx: int, n_ubatch: int, outputs: int, flash_attention: bool) -> int:
    """Bytes of the buffers for computing: attention scores (without flash attention), activations, logits."""
    scores = 0 if flash_attention else score_bytes(file, n_ctx, n_ubatch)
    mask = 4 * n_ubatch * _padded(n_ctx)
    activations = 4 * n_ubatch * (2 * file.integer("feed_forward_length") + 6 * file.integer("embedding_length"))
    logits = 2 * 4 * file.n_vocab * outputs  # once in the graph, once in the output buffer
    return scores + mask + activations + logits + _OVERHEAD


def score_bytes(file: GgufFile, n_ctx: int, n_ubatch: int) -> int:
    """Bytes of the attention scores of one layer: (heads, n_ubatch, n_ctx) float32."""
    return 4 * n_ubatch * _padded(n_ctx) * max(1, file.integer("attention.head_count", 1))


def longest_context(file: GgufFile, budget: int, type_k: CacheType = "f16", type_v: CacheType = "f16") -> int:
    """The largest n_ctx, a multiple of 256, whose cache fits into `budget` bytes; 0 if none does."""
    low, high = 0, 2**31 // _PAD
    while low < high:
        middle = (low + high + 1) // 2
        if cache_bytes(file, middle * _PAD, type_k=type_k, type_v=type_v) <= budget:
            low = middle
        else:
            high = middle - 1
    return low * _PAD


def _padded(n: int) -> int:
    return math.ceil(n / _PAD) * _PAD


def _width(type_: CacheType) -> float:
    """Bytes per number."""
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType[type_.upper()]]
    return float(size / block)


def _first(file: GgufFile, key: str, default: int) -> int:
    return _per_layer(file, key, 0, default)


def _per_layer(file: GgufFile, key: str, layer: int, default: int) -> int:
    value = file.get(key, default)
    if isinstance(value, tuple):
        value = value[layer] if layer < len(value) else default
    return int(value) if isinstance(value, (int, float)) else default


def _windowed(file: GgufFile, layer: int) -> bool:
    if not file.integer("attention.sliding_window"):
        return False
    pattern = file.get("attention.sliding_window_pattern", _WINDOW_PATTERN.get(file.architecture, 1))
    if isinstance(pattern, tuple):
        return bool(pattern[layer]) if layer < len(pattern) else False
    every = int(pattern) if isinstance(pattern, (int, float)) else 1
    return every != 1 and (every == 0 or layer % every < every - 1)


def _recurrent(file: GgufFile, layer: int) -> bool:
    """Whether a layer of a hybrid is a recurrent one, where that is not said by its key-value heads."""
    if flags := file.get("attention.recurrent_layers", ()):
        return bool(flags[layer]) if isinstance(flags, tuple) and layer < len(flags) else False
    if file.architecture in ("qwen3next", "qwen35", "qwen35moe"):
        return (layer + 1) % (file.integer("full_attention_interval", 4) or 4) != 0
    return False


def _state(file: GgufFile) -> int:
    """Numbers that one recurrent layer keeps: the inputs of its convolution, and the state itself."""
    n_embd = file.integer("embedding_length")
    if conv := file.integer("shortconv.l_cache"):
        return (conv - 1) * n_embd
    if head := file.integer("wkv.head_size"):
        return n_embd * (2 + head)
    inner, size = file.integer("ssm.inner_size"), file.integer("ssm.state_size")
    groups, conv = file.integer("ssm.group_count"), file.integer("ssm.conv_kernel")
    return max(0, conv - 1) * (inner + 2 * groups * size) + inner * size
