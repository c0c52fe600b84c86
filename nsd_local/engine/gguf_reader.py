"""Reads the fields of a GGUF header from bytes, never past their end."""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from typing import Final

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_DIMS = 4
_MAX_NAME = 64  # GGML_MAX_NAME
_KEPT_ARRAY = 65_536  # longer arrays of numbers (token scores, types) are skipped
_U64 = struct.Struct("<Q")


class Damaged(Exception):  # noqa: N818  (internal; read_gguf turns it into a ModelError)
    """The header contradicts itself or ends too early."""


@dataclass(frozen=True, slots=True)
class StringArray:
    """An array of strings, of which only the length is kept."""

    count: int


Scalar = int | float | bool | str
Value = Scalar | tuple[Scalar, ...] | StringArray


@dataclass(frozen=True, slots=True)
class TensorInfo:
    name: str
    shape: tuple[int, ...]  # fastest dimension first, as in ggml
    type: int  # ggml_type
    offset: int  # bytes from the start of the data section
    nbytes: int | None  # None for a type this program does not know

    @property
    def type_name(self) -> str:
        try:
            return str(GGMLQuantizationType(self.type).name)
        except ValueError:
            return f"type {self.type}"


class Reader:
    """Walks through a header. `offset` is where it stands, in the end the size of the header."""

    def __init__(self, data: mmap.mmap | bytes) -> None:
        self._data = data
        self._size = len(data)
        self.offset = 0

    def header(self) -> tuple[dict[str, Value], tuple[TensorInfo, ...]]:
        """Metadata and tensor table. Raises Damaged."""
        self.offset = 8  # magic and version
        n_tensors, n_values = self._u64(), self._u64()
        if n_tensors > self._size or n_values > self._size:
            raise Damaged(f"its header promises {n_tensors:,} tensors and {n_values:,} values")
        metadata: dict[str, Value] = {}
        for _ in range(n_values):
            key = self._string()
            if key in metadata:
                raise Damaged(f"its header gives {_shown(key)} twice")
            metadata[key] = self._value(self._u32(), key)
        tensors = tuple(self._tensor() for _ in range(n_tensors))
        names = {tensor.name for tensor in tensors}
        if len(names) != len(tensors):
            raise Damaged("two of its tensors have the same name")
        return metadata, tensors

    def _take(self, n: int) -> int:
        """Step over `n` bytes; returns where they start."""
        start = self.offset
        if n > self._size - start:
            raise Damaged(f"its header ends early, at byte {self._size:,}")
        self.offset = start + n
        return start

    def _u32(self) -> int:
        return int.from_bytes(self._data[self._take(4) : self.offset], "little")

    def _u64(self) -> int:
        return int.from_bytes(self._data[self._take(8) : self.offset], "little")

    def _string(self) -> str:
        start = self._take(self._u64())
        return self._data[start : self.offset].decode("utf-8", "replace")

    def _value(self, type_: int, key: str) -> Value:
        if type_ in _SCALARS:
            return self._scalars(type_, 1)[0]
        if type_ == _STRING:
            return self._string()
        if type_ != _ARRAY:
            raise Damaged(f"the value of {_shown(key)} has the unknown type {type_}")
        item, count = self._u32(), self._u64()
        if item == _STRING:
            self._skip_strings(count)
            return StringArray(count)
        if item not in _SCALARS:
            raise Damaged(f"the array {_shown(key)} has items of the unknown type {item}")
        if count > _KEPT_ARRAY:
            self._take(struct.calcsize(_SCALARS[item]) * count)
            return ()
        return self._scalars(item, count)

    def _scalars(self, type_: int, count: int) -> tuple[Scalar, ...]:
        code = f"<{count}{_SCALARS[type_]}"
        start = self._take(struct.calcsize(code))
        return struct.unpack_from(code, self._data, start)

    def _skip_strings(self, count: int) -> None:
        if count > self._size // 8:
            raise Damaged(f"its header ends early, at byte {self._size:,}: it promises {count:,} texts")
        data, size, unpack, at = self._data, self._size, _U64.unpack_from, self.offset
        try:
            for _ in range(count):
                at += 8 + unpack(data, at)[0]
        except (struct.error, OverflowError):  # past the end, or past what an index can be
            at = size + 1
        if at > size:
            raise Damaged(f"its header ends early, at byte {size:,}")
        self.offset = at

    def _tensor(self) -> TensorInfo:
        name = self._string()
        if not name or len(name.encode()) >= _MAX_NAME:
            raise Damaged(f"a tensor has the name {_shown(name)!r}")
        n_dims = self._u32()
        if not 1 <= n_dims <= _MAX_DIMS:
            raise Damaged(f"tensor {_shown(name)} has {n_dims} dimensions")
        shape = tuple(self._u64() for _ in range(n_dims))
        type_, offset = self._u32(), self._u64()
        n = 1
        for dim in shape:
            n *= dim
        if n == 0 or n > 1 << 50 or offset > 1 << 60:
            raise Damaged(f"tensor {_shown(name)} has the shape {shape} at {offset:,}")
        return TensorInfo(name, shape, type_, offset, _nbytes(name, n, shape[0], type_))


def _shown(name: str) -> str:
    """A name out of a damaged file, fit for a message."""
    short = name if len(name) <= _MAX_NAME else name[:_MAX_NAME] + "..."
    return short if short.isprintable() else ascii(short)[1:-1]


def _nbytes(name: str, n: int, row: int, type_: int) -> int | None:
    try:
        block, size = GGML_QUANT_SIZES[GGMLQuantizationType(type_)]
    except (ValueError, KeyError):
        return None
    if row % block:
        raise Damaged(f"tensor {_shown(name)} has rows of {row} values, not a multiple of its type's {block}")
    return int(n // block * size)
