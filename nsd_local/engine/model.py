"""A loaded GGUF model: its weights, vocabulary and metadata."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import TracebackType
from typing import Any

from nsd_local.engine import library
from nsd_local.engine.options import ModelOptions
from nsd_local.errors import ModelError


class Model:
    """One model and the owner of its native handle. Use as a context manager, or call `close`."""

    def __init__(self, path: Path, handle: Any) -> None:
        lib = library.load()
        self.path = path
        self._lib = lib
        self._handle = handle
        self._vocab = lib.llama_model_get_vocab(handle)
        self.n_vocab: int = lib.llama_vocab_n_tokens(self._vocab)
        self.n_ctx_train: int = lib.llama_model_n_ctx_train(handle)
        self.size_bytes: int = lib.llama_model_size(handle)
        template = lib.llama_model_chat_template(handle, None)
        self.chat_template: str | None = template.decode("utf-8", "replace") if template else None
        self._pieces: dict[int, bytes] = {}
        self.eog = frozenset(t for t in range(self.n_vocab) if lib.llama_vocab_is_eog(self._vocab, t))

    @classmethod
    def load(cls, path: Path, options: ModelOptions | None = None) -> Model:
        lib = library.load()
        params = lib.llama_model_default_params()
        params.load_mode = lib.LLAMA_LOAD_MODE_NONE
        handle = lib.llama_model_load_from_file(str(path).encode(), params)
        if not handle:
            raise ModelError(f"{path} cannot be loaded")
        return cls(path, handle)

    def tokenize(self, text: str, *, special: bool, add_bos: bool) -> list[int]:
        data = text.encode("utf-8")
        size = len(data) + 8
        buffer = (ctypes.c_int32 * size)()
        n = self._lib.llama_tokenize(self._vocab, data, len(data), buffer, size, add_bos, special)
        if n < 0:
            raise ModelError(f"{self.path} cannot tokenize this text")
        return buffer[:n]

    def piece(self, token: int) -> bytes:
        """The bytes that `token` stands for; control tokens are spelled out."""
        if token in self._pieces:
            return self._pieces[token]
        size = 64
        buffer = ctypes.create_string_buffer(size)
        n = self._lib.llama_token_to_piece(self._vocab, token, buffer, size, 0, True)
        if n < 0:
            size = -n
            buffer = ctypes.create_string_buffer(size)
            n = self._lib.llama_token_to_piece(self._vocab, token, buffer, size, 0, True)
        self._pieces[token] = piece = buffer.raw[:n]
        return piece

    def is_eog(self, token: int) -> bool:
        return token in self.eog

    def close(self) -> None:
        if self._handle:
            self._lib.llama_model_free(self._handle)
            self._handle = None

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
