"""The tokens of a model: text to ids and back."""

from __future__ import annotations

import ctypes
import threading
from functools import cached_property
from typing import Any, Final

from nsd_local.errors import ModelError

TYPES: Final = {0: "none", 1: "SPM", 2: "BPE", 3: "WPM", 4: "UGM", 5: "RWKV", 6: "PLAMO2"}  # llama_vocab_type


class Vocabulary:
    """Owned by a Model and alive as long as it."""

    def __init__(self, lib: Any, handle: Any, name: str) -> None:
        self._lib, self._name = lib, name
        self._handle: Any = handle
        self.size: int = lib.llama_vocab_n_tokens(handle)
        self.type = TYPES.get(lib.llama_vocab_type(handle), f"type {lib.llama_vocab_type(handle)}")
        self.bos: int = lib.llama_vocab_bos(handle)  # -1 for none
        self.eos: int = lib.llama_vocab_eos(handle)
        self.eot: int = lib.llama_vocab_eot(handle)
        self.add_bos = bool(lib.llama_vocab_get_add_bos(handle))
        self.add_eos = bool(lib.llama_vocab_get_add_eos(handle))
        self._pieces: dict[int, bytes] = {}
        self._use = threading.Lock()  # prompts are tokenized outside an engine's turns: no freeing in the middle

    @property
    def handle(self) -> Any:
        """The native handle. Raises ModelError once the model is closed."""
        if self._handle is None:
            raise ModelError(f"{self._name} is closed")
        return self._handle

    def close(self) -> None:
        """The model is about to be freed, and this vocabulary with it."""
        with self._use:
            self._handle = None
        self._pieces.clear()

    @cached_property
    def eog(self) -> frozenset[int]:
        """Every token that ends a generation."""
        is_eog, handle = self._lib.llama_vocab_is_eog, self.handle
        return frozenset(token for token in range(self.size) if is_eog(handle, token))

    def text(self, token: int) -> str:
        """How the vocabulary writes a token (a space as the model's own space character)."""
        self._check(token)
        raw: bytes | None = self._lib.llama_vocab_get_text(self.handle, token)
        return (raw or b"").decode("utf-8", "replace")

    def raw_texts(self) -> list[bytes]:
        """`text` of all tokens, undecoded."""
        get, handle = self._lib.llama_vocab_get_text, self.handle
        return [get(handle, token) or b"" for token in range(self.size)]

    def tokenize(self, text: str, *, special: bool, add_bos: bool) -> list[int]:
        """Token ids of `text`. `special` reads control tokens written out in it; `add_bos` puts the model's
        beginning-of-sequence token in front where the model wants one and the text does not begin with it.
        """
        data = text.encode("utf-8", "surrogatepass")
        size = len(data) + 8
        buffer = (ctypes.c_int32 * size)()
        n = self._tokenize(data, buffer, special)
        if n < 0 and n != -(2**31):  # more tokens than bytes: the size that is needed
            buffer = (ctypes.c_int32 * -n)()
            n = self._tokenize(data, buffer, special)
        if n < 0:
            raise ModelError(f"{self._name} cannot tokenize a text of {len(data):,} bytes")
        tokens: list[int] = buffer[:n]
        if add_bos and self.add_bos and self.bos >= 0 and tokens[:1] != [self.bos]:
            tokens.insert(0, self.bos)
        return tokens

    def _tokenize(self, data: bytes, buffer: Any, special: bool) -> int:
        with self._use:
            count: int = self._lib.llama_tokenize(self.handle, data, len(data), buffer, len(buffer), False, special)
        return count

    def piece(self, token: int) -> bytes:
        """The bytes that `token` stands for, however many; control tokens are written out."""
        piece = self._pieces.get(token)
        if piece is None:
            self._check(token)
            piece = self._pieces[token] = self._piece(token)
        return piece

    def _piece(self, token: int) -> bytes:
        size, handle = 64, self.handle
        while True:
            buffer = ctypes.create_string_buffer(size)
            n: int = self._lib.llama_token_to_piece(handle, token, buffer, size, 0, True)
            if n >= 0:
                return buffer.raw[:n]
            size = -n  # the size it needs

    def spell_out(self) -> None:
        """Ask llama.cpp for every piece and keep none: a damaged vocabulary shows here."""
        buffer, to_piece, handle = ctypes.create_string_buffer(64), self._lib.llama_token_to_piece, self.handle
        for token in range(self.size):
            to_piece(handle, token, buffer, 64, 0, True)

    def _check(self, token: int) -> None:
        if not 0 <= token < self.size:  # llama.cpp would end the process
            raise ModelError(f"{self._name} has no token {token}", f"its ids are 0..{self.size - 1}")
