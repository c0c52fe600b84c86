"""A loaded GGUF model: its weights, vocabulary and metadata."""

from __future__ import annotations

import ctypes
import weakref
from functools import cached_property
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any

from nsd_local.engine import fingerprint, library, loading
from nsd_local.engine.gguf_file import GgufFile, read_gguf
from nsd_local.engine.options import Choice, ModelOptions
from nsd_local.engine.vocabulary import Vocabulary
from nsd_local.errors import ModelError

if TYPE_CHECKING:
    from nsd_local.engine.context import Context


class Model:
    """One model and the owner of its native handles. Use as a context manager, or call `close`.

    Closing it closes its contexts first: llama.cpp wants them freed before their model.
    """

    def __init__(self, file: GgufFile, weights: loading.Weights, options: ModelOptions, load_s: float) -> None:
        lib, handle = library.load(), weights.handle
        self._handle: Any = handle
        self._free = weakref.finalize(self, lib.llama_model_free, handle)
        library.close_at_exit(self)
        self._contexts: weakref.WeakSet[Context] = weakref.WeakSet()
        self.file = file
        self.path = file.path
        self.options = options
        self.choices: dict[str, Choice] = weights.choices  # what was chosen automatically, and why
        self.gpu_layers = weights.gpu_layers
        self.load_s = load_s
        self.architecture = file.architecture
        self.vocabulary = Vocabulary(lib, lib.llama_model_get_vocab(handle), str(file.path))
        self.n_vocab = self.vocabulary.size
        self.n_ctx_train: int = lib.llama_model_n_ctx_train(handle)
        self.n_layer: int = lib.llama_model_n_layer(handle)
        self.n_params: int = lib.llama_model_n_params(handle)
        self.n_window: int = lib.llama_model_n_swa(handle)  # tokens of the sliding window; 0 for none
        self.size_bytes: int = lib.llama_model_size(handle)  # of the weights
        self.is_recurrent = bool(lib.llama_model_is_recurrent(handle))
        self.is_hybrid = bool(lib.llama_model_is_hybrid(handle))
        template = lib.llama_model_chat_template(handle, None)
        self.chat_template: str | None = template.decode("utf-8", "replace") if template else None
        self.adapters: list[tuple[Any, float]] = []  # LoRA handles, freed with the model, and their scales

    @classmethod
    def load(cls, path: Path | str, options: ModelOptions | None = None) -> Model:
        """Load a model. Raises ModelError with the reason where the file is not usable or does not fit."""
        options = options or ModelOptions()
        file = read_gguf(Path(path))
        start = perf_counter()
        weights = loading.load_weights(file, options)
        model = cls(file, weights, options, perf_counter() - start)  # owns the handle from its first line on
        try:
            loading.check_generates(model)
            model.adapters = loading.load_adapters(weights.handle, options)
        except BaseException:
            model.close()
            raise
        return model

    @cached_property
    def description(self) -> str:
        """llama.cpp's short description: "qwen2 1.5B Q4_K - Medium"."""
        buffer = ctypes.create_string_buffer(256)
        library.load().llama_model_desc(self.handle, buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace")

    @cached_property
    def metadata(self) -> dict[str, str]:
        """All metadata of the file as text, as llama.cpp renders it; long arrays cut off."""
        lib, handle = library.load(), self.handle

        def text(function: Any, index: int) -> str:
            needed = function(handle, index, None, 0)
            buffer = ctypes.create_string_buffer(max(needed, 0) + 1)
            function(handle, index, buffer, len(buffer))
            return buffer.value.decode("utf-8", "replace")

        return {
            text(lib.llama_model_meta_key_by_index, i): text(lib.llama_model_meta_val_str_by_index, i)
            for i in range(lib.llama_model_meta_count(handle))
        }

    @cached_property
    def identity(self) -> list[Any]:
        """What tells this model from others, JSON-able: size, header, a fingerprint of the weights, and the adapters by
        content and scale. Raises OSError where the files cannot be read."""
        loras = [[fingerprint.of_file(lora.path.expanduser()), lora.scale] for lora in self.options.lora]
        return [self.file.size, self.file.header_sha256, fingerprint.of_samples(self.file.parts), loras]

    @property
    def name(self) -> str:
        return str(self.file.metadata.get("general.name", "")) or self.path.stem

    @property
    def handle(self) -> Any:
        """The native handle. Raises ModelError after `close`."""
        if self._handle is None:
            raise ModelError(f"{self.path} is closed")
        return self._handle

    # The vocabulary's most used methods, for convenience.

    def tokenize(self, text: str, *, special: bool, add_bos: bool) -> list[int]:
        return self.vocabulary.tokenize(text, special=special, add_bos=add_bos)

    def piece(self, token: int) -> bytes:
        return self.vocabulary.piece(token)

    def is_eog(self, token: int) -> bool:
        return token in self.vocabulary.eog

    @property
    def eog(self) -> frozenset[int]:
        return self.vocabulary.eog

    @property
    def add_bos(self) -> bool:
        return self.vocabulary.add_bos

    def attach(self, context: Context) -> None:
        """Remember a context, to close it before the model."""
        self._contexts.add(context)

    def close(self) -> None:
        """Free contexts, adapters and weights, in this order. May be called twice."""
        for context in list(self._contexts):
            context.close()
        if self._handle is not None:
            lib = library.load()
            for adapter, _ in self.adapters:
                lib.llama_adapter_lora_free(adapter)
            self.adapters = []
            self.vocabulary.close()
            self._handle = None
            self._free()

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
