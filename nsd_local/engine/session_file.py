"""A session on disk: the memories of target and draft, so that a conversation goes on without reading it again.

Layout: magic, length of the header, header (JSON), then for each memory its token ids (int32) and llama.cpp's state,
then the SHA-256 of all before. The file is written beside its place and moved there: a killed save leaves the old one.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from nsd_local.engine import library
from nsd_local.engine.context import Context
from nsd_local.errors import SessionError

MAGIC: Final = b"NSDSESS1"
_LENGTH = struct.Struct("<Q")
_DIGEST = 32
_CHUNK = 1 << 24
_LONGEST_SHOWN = 200
_WHAT = {  # what must be equal, and how to say so
    "model": "was made with another model",
    "llama": "was made with another llama.cpp",
    "cache": "was made with other cache settings",
}


def save_session(path: Path, contexts: Mapping[str, Context], note: Mapping[str, Any] | None = None) -> None:
    """Write the memories of `contexts` (by role: "target", "draft") and a JSON-able `note`. Raises SessionError.

    A symbolic link stays one: the file it leads to is written. Devices and other special files are left alone.
    """
    name = ""
    try:
        path = _writable(path)
        states = {role: _state(context) for role, context in contexts.items()}
        text = _header_text(contexts, states, note)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=path.name + ".", suffix=".part", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            out = _Hashed(file)
            out.write(MAGIC + _LENGTH.pack(len(text)) + text)
            for role, context in contexts.items():
                out.write(np.array(context.tokens, dtype=np.int32).tobytes())
                out.write(states[role])
            file.write(out.sha256.digest())
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except (OSError, ValueError) as error:
        raise SessionError(f"The session could not be saved to {_shown(path)}", _reason(error)) from error
    finally:
        if name:
            Path(name).unlink(missing_ok=True)


def restore_session(path: Path, contexts: Mapping[str, Context]) -> dict[str, Any]:
    """Bring `contexts` to what `path` holds; returns the note.

    Raises SessionError with the reason where the file is not a session, is incomplete or damaged, or belongs to other
    models or settings: the contexts are then as they were, or empty if llama.cpp refused the state itself.
    """
    try:
        path = _home(path)
        if path.exists() and not path.is_file():
            raise OSError("it is not a regular file")
        with path.open("rb") as file:
            header = _header(path, file)
            wanted = _match(path, header["parts"], contexts)
            _check_digest(path, file)
            _check_tokens(path, file, wanted)
            for part, context in wanted:
                _restore(path, file, part, context)
    except (OSError, ValueError) as error:
        raise SessionError(f"The session {_shown(path)} cannot be read", _reason(error)) from error
    return dict(header["note"])


def _home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError as error:  # ~nobody
        raise OSError(str(error)) from None


def _writable(path: Path) -> Path:
    """The file that is to be written: where a symbolic link leads. Raises OSError for what is no regular file."""
    path = Path(os.path.realpath(_home(path)))
    if path.is_symlink():
        raise OSError("it is a symbolic link that leads back to itself")
    if path.exists() and not path.is_file():
        raise OSError(
            "it is a folder" if path.is_dir() else "it is a device or another special file, not a regular one"
        )
    return path


def _shown(path: Path) -> str:
    """For messages: of a length and of characters that any terminal can print."""
    text = ascii(str(path))[1:-1] if not str(path).isprintable() else str(path)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return "the path holds characters that no file name can have"


def _header_text(contexts: Mapping[str, Context], states: Mapping[str, Any], note: Mapping[str, Any] | None) -> bytes:
    try:
        parts = [
            {"role": role, **_identity(context), "tokens": len(context.tokens), "state": len(states[role])}
            for role, context in contexts.items()
        ]
        return json.dumps({"note": dict(note or {}), "parts": parts}).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise SessionError("The session could not be saved", f"its note is not JSON: {error}") from error


class _Hashed:
    def __init__(self, file: BinaryIO) -> None:
        self._file, self.sha256 = file, hashlib.sha256()

    def write(self, data: Any) -> None:
        self.sha256.update(data)
        self._file.write(data)


def _state(context: Context) -> Any:
    """llama.cpp's state of the memory, as bytes-like; empty for an empty memory."""
    context.settle()
    if not context.tokens:
        return b""
    lib = library.load()
    size = lib.llama_state_seq_get_size_ext(context.handle, 0, 0)
    data = (ctypes.c_uint8 * size)()
    if lib.llama_state_seq_get_data_ext(context.handle, data, size, 0, 0) != size:
        raise SessionError("The session could not be saved", "llama.cpp did not give the state of its memory")
    return data


def _identity(context: Context) -> dict[str, Any]:
    """What must be equal for a state to mean the same."""
    options, plan = context.options, context.plan
    return {
        "model": context.model.identity,
        "llama": library.installed_version(),
        "cache": [options.cache_type_k, options.cache_type_v, plan.flash_attention, plan.swa_full],
    }


def _header(path: Path, file: BinaryIO) -> dict[str, Any]:
    head = file.read(len(MAGIC) + _LENGTH.size)
    if head[: len(MAGIC)] != MAGIC:
        raise SessionError(f"{path} is not a saved session", "it was not written by `--session`")
    size = path.stat().st_size
    length = _LENGTH.unpack(head[len(MAGIC) :])[0] if len(head) == len(MAGIC) + _LENGTH.size else size
    try:
        if length > size:
            raise ValueError("the header is longer than the file")
        header: dict[str, Any] = json.loads(file.read(length))
        _check_header(header)
        expected = len(head) + length + _DIGEST + sum(4 * p["tokens"] + p["state"] for p in header["parts"])
    except (ValueError, RecursionError) as error:
        raise SessionError(f"The session {path} is damaged", str(error)) from error
    if size != expected:
        raise SessionError(f"The session {path} is incomplete: {size:,} of {expected:,} bytes")
    return header


def _check_header(header: Any) -> None:
    """Raises ValueError where it is not what `save_session` writes."""
    if not isinstance(header, dict) or not isinstance(header.get("note"), dict):
        raise ValueError("its header has no note")
    parts = header.get("parts")
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise ValueError("its header has no list of parts")
    roles = [part.get("role") for part in parts]
    if not all(isinstance(role, str) for role in roles) or len(set(roles)) < len(roles):
        raise ValueError("the roles of its parts are not different texts")
    for part in parts:
        for key in ("tokens", "state"):
            if type(part.get(key)) is not int or part[key] < 0:
                raise ValueError(f"the {key} of a part is not a size")


def _match(
    path: Path, parts: list[dict[str, Any]], contexts: Mapping[str, Context]
) -> list[tuple[dict[str, Any], Context | None]]:
    """Each part with its context; None for a draft that is not loaded now."""
    found = []
    for part in parts:
        context = contexts.get(part["role"])
        found.append((part, context))
        if context is None:
            continue
        identity = _identity(context)
        for key, text in _WHAT.items():
            if part.get(key) != identity[key]:
                why = _difference(part["role"], key, part.get(key), identity[key])
                raise SessionError(f"The session {path} {text}", why, "Start a new one, or load what it was made with")
        if part["tokens"] > context.n_ctx:
            why = f"it holds {part['tokens']:,} tokens, the context {context.n_ctx:,}"
            raise SessionError(f"The session {path} does not fit", why, f"Load with --ctx {part['tokens'] + 1024}")
    if missing := set(contexts) - {part["role"] for part in parts} - {"draft"}:
        raise SessionError(f"The session {path} lacks the memory of: {', '.join(sorted(missing))}")
    return found


def _check_digest(path: Path, file: BinaryIO) -> None:
    """Before anything is restored. Leaves the file where it was."""
    here = file.tell()
    file.seek(0)
    digest, left = hashlib.sha256(), path.stat().st_size - _DIGEST
    while left > 0:
        chunk = file.read(min(_CHUNK, left))
        if not chunk:
            break
        digest.update(chunk)
        left -= len(chunk)
    if file.read(_DIGEST) != digest.digest():
        raise SessionError(f"The session {path} is damaged", "its checksum is wrong")
    file.seek(here)


def _difference(role: str, key: str, there: Any, here: Any) -> str:
    if key != "model":
        return f"the {role}'s {key} differs: {there} there, {here} here"
    told = there if isinstance(there, list) and len(there) == len(here) else [None] * len(here)
    names = [
        name for name, a, b in zip(("size", "header", "weights", "LoRA adapters"), told, here, strict=True) if a != b
    ]
    return f"the {role} differs from it in: {', '.join(names)}"


def _check_tokens(path: Path, file: BinaryIO, wanted: list[tuple[dict[str, Any], Context | None]]) -> None:
    """Every token exists in its model. Leaves the file where it was."""
    here = file.tell()
    for part, context in wanted:
        tokens = np.frombuffer(file.read(4 * part["tokens"]), dtype=np.int32)
        file.seek(part["state"], os.SEEK_CUR)
        if context is not None and len(tokens) and not 0 <= tokens.min() <= tokens.max() < context.n_vocab:
            raise SessionError(f"The session {path} is damaged", f"it holds tokens that the {part['role']} lacks")
    file.seek(here)


def _restore(path: Path, file: BinaryIO, part: dict[str, Any], context: Context | None) -> None:
    tokens = np.frombuffer(file.read(4 * part["tokens"]), dtype=np.int32).tolist()
    data = file.read(part["state"])
    if context is None:
        return
    context.clear()
    if not tokens:
        return
    lib = library.load()
    buffer = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
    read = lib.llama_state_seq_set_data_ext(context.handle, buffer, len(data), 0, 0)
    if read != len(data) or lib.llama_memory_seq_pos_max(lib.llama_get_memory(context.handle), 0) != len(tokens) - 1:
        context.clear()
        raise SessionError(f"The session {path} could not be restored", "llama.cpp refused the state of its memory")
    context.adopt(tokens)
