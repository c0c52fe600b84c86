"""The header of a GGUF file, checked before llama.cpp sees it.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Only the header is read: a tenth of a second for a
vocabulary of 152k tokens, whatever the size of the file.
"""

from __future__ import annotations

import hashlib
import math
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nsd_local.catalog.probe import check_file, expanded
from nsd_local.engine.gguf_reader import Damaged, Reader, StringArray, TensorInfo, Value
from nsd_local.errors import ModelError

MAGIC: Final = b"GGUF"
_STRANGERS: Final = (  # what people download by mistake
    (b"version https://git-lfs", "it is a Git LFS pointer, not the file itself"),
    (b"<!DOCTYPE", "it is a web page"),
    (b"<html", "it is a web page"),
    (b"PK\x03\x04", "it is a zip archive"),
    (b"ggjt", "it is a GGML file from before GGUF"),
    (b"lmgg", "it is a GGML file from before GGUF"),
)


@dataclass(frozen=True, slots=True)
class GgufFile:
    """What the header says."""

    path: Path
    size: int  # bytes, all parts of a split model together
    metadata: Mapping[str, Value]
    tensors: tuple[TensorInfo, ...]
    header_bytes: int
    header_sha256: str
    parts: tuple[Path, ...]  # the files of a split model, first to last; just `path` otherwise

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", ""))

    def get(self, key: str, default: Value = 0) -> Value:
        """A value of this architecture: `get("block_count")` reads e.g. `llama.block_count`."""
        return self.metadata.get(f"{self.architecture}.{key}", default)

    def integer(self, key: str, default: int = 0) -> int:
        """`get` for a number; the largest of an array."""
        value = self.get(key, default)
        if isinstance(value, tuple):
            numbers = [int(v) for v in value if isinstance(v, (int, float))]
            return max(numbers, default=default)
        return int(value) if isinstance(value, (int, float)) else default

    @property
    def n_vocab(self) -> int:
        tokens = self.metadata.get("tokenizer.ggml.tokens")
        return tokens.count if isinstance(tokens, StringArray) else self.integer("vocab_size")


def read_gguf(path: Path) -> GgufFile:
    """Read and check the header of `path` (the first part of a split model).

    Raises ModelError: missing, a folder, empty, not GGUF, incomplete ("X of Y bytes"), damaged.
    """
    path = expanded(path)
    size = _check_file(path)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        _check_magic(path, data[:64])
        try:
            reader = Reader(data)
            metadata, tensors = reader.header()
            header_bytes = reader.offset
            digest = hashlib.sha256(memoryview(data)[:header_bytes]).hexdigest()
        except Damaged as error:
            raise ModelError(f"{path} is damaged or incomplete", str(error), "Download it again") from error
    if not metadata.get("general.architecture"):
        raise ModelError(f"{path} is not a model", "its header names no architecture", "Choose another GGUF file")
    parts = _parts(path, metadata)
    _check_length(path, size, header_bytes, tensors, metadata)
    total = sum(part.stat().st_size for part in parts)
    return GgufFile(path, total, metadata, tensors, header_bytes, digest, parts)


def _check_file(path: Path) -> int:
    check_file(path)
    if path.is_dir():
        inside = sorted(path.glob("*.gguf"))
        hint = f"Give one of its files, e.g. {inside[0]}" if inside else "Give the path of a .gguf file"
        raise ModelError(f"{path} is a folder", "a model is a .gguf file", hint)
    try:
        with path.open("rb"):
            size = path.stat().st_size
    except OSError as error:
        raise ModelError(f"{path} cannot be read", error.strerror or str(error), "Check its permissions") from error
    if size == 0:
        raise ModelError(f"{path} is empty (0 bytes)", "it is not a GGUF file", "Download it again")
    return size


def _check_magic(path: Path, head: bytes) -> None:
    if head[:4] == MAGIC:
        version = int.from_bytes(head[4:8], "little")
        if version in (2, 3):
            return
        if 0 < int.from_bytes(head[4:8], "big") < 16:
            raise ModelError(f"{path} is a big-endian GGUF file", "this machine reads little-endian ones only")
        raise ModelError(
            f"{path} is a GGUF file of version {version}", "versions 2 and 3 are known", "Convert it again"
        )
    why = "it does not begin with the letters GGUF"
    for start, what in _STRANGERS:
        if head.startswith(start):
            why = what
    if head[8:9] == b"{":
        why = "it is probably a safetensors file"
    raise ModelError(f"{path} is not a GGUF file", why, "Give a model in GGUF format")


def _parts(path: Path, metadata: Mapping[str, Value]) -> tuple[Path, ...]:
    """All files of a split model. llama.cpp wants the first and finds the others by name."""
    count, number = metadata.get("split.count", 0), metadata.get("split.no", 0)
    if not isinstance(count, int) or not isinstance(number, int) or count <= 1:
        return (path,)
    tail = f"-{number + 1:05d}-of-{count:05d}.gguf"
    if not path.name.endswith(tail):
        raise ModelError(
            f"{path} is part {number + 1} of {count}", f"its name must end in {tail}", "Give the parts their names back"
        )
    stem = path.name[: -len(tail)]
    parts = tuple(path.with_name(f"{stem}-{i + 1:05d}-of-{count:05d}.gguf") for i in range(count))
    if number != 0:
        raise ModelError(
            f"{path} is part {number + 1} of {count}", "a model is opened by its first part", f"Give {parts[0]}"
        )
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise ModelError(f"{path} is incomplete", f"of {count} parts these are missing: {', '.join(missing[:5])}")
    return parts


def _check_length(
    path: Path, size: int, header_bytes: int, tensors: tuple[TensorInfo, ...], metadata: Mapping[str, Value]
) -> None:
    alignment = metadata.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
        raise ModelError(f"{path} is damaged", f"its alignment is {alignment!r}", "Download it again")
    start = math.ceil(header_bytes / alignment) * alignment
    end = max((start + t.offset + t.nbytes for t in tensors if t.nbytes is not None), default=header_bytes)
    if size < end:
        raise ModelError(
            f"{path} is incomplete: {size:,} of {end:,} bytes",
            "the download or the copy was cut off",
            "Download it again (`nsd-local pull` resumes)",
        )
