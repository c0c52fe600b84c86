"""Requantizing a model: a smaller type makes a draft faster, and changes nothing but how often it is right."""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

from nsd_local.engine import library
from nsd_local.engine.gguf_file import read_gguf
from nsd_local.engine.options import Progress, checked_threads
from nsd_local.errors import ModelError, UsageError

# enum llama_ftype
TYPES: Final = {
    "F32": 0,
    "F16": 1,
    "Q4_0": 2,
    "Q4_1": 3,
    "Q8_0": 7,
    "Q5_0": 8,
    "Q5_1": 9,
    "Q2_K": 10,
    "Q3_K_M": 12,
    "Q4_K_S": 14,
    "Q4_K_M": 15,
    "Q5_K_M": 17,
    "Q6_K": 18,
    "IQ4_NL": 25,
    "IQ4_XS": 30,
    "BF16": 32,
}
# enum ggml_type of the types that can hold every matrix of a model
_WHOLE: Final = {"Q4_0": 2, "Q4_1": 3, "Q8_0": 8, "Q5_0": 6, "Q5_1": 7, "IQ4_NL": 20}
_STRING = 3  # LLAMA_KV_OVERRIDE_TYPE_STR
_LONGEST = 127  # bytes of a string that llama.cpp can override
PROVENANCE: Final = "nsd_local.quantized_from"


def quantize(
    source: Path,
    destination: Path,
    type_: str,
    *,
    whole: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write `source`, requantized to `type_`, to `destination`; returns it.

    llama.cpp keeps the output matrix at a higher precision; `whole`: that one too becomes `type_`, where the type can
    hold it. The file appears only when it is complete. Its metadata says what it was made from (`PROVENANCE`). Raises
    UsageError for an unknown type, ModelError where the source is unusable or llama.cpp fails.
    """
    if type_ not in TYPES:
        raise UsageError(f"{type_} is not a quantization", f"known are {', '.join(TYPES)}")
    threads = checked_threads(threads)
    file = read_gguf(source)
    destination = destination.expanduser()
    destination.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=destination.name + ".", suffix=".part", dir=destination.parent)
    os.close(handle)
    part = Path(name)
    try:
        origin = f"{file.path.name} {file.size} {file.header_sha256[:16]} to {type_}"
        _quantize(file.path, part, type_, whole, origin, threads, progress, len(file.tensors))
        read_gguf(part)
        os.replace(part, destination)
    finally:
        part.unlink(missing_ok=True)
    return destination


def _quantize(
    source: Path,
    part: Path,
    type_: str,
    whole: bool,
    origin: str,
    threads: int | None,
    progress: Progress | None,
    n: int,
) -> None:
    lib = library.load()
    params = lib.llama_model_quantize_default_params()
    params.ftype = TYPES[type_]
    params.nthread = threads or 0
    params.allow_requantize = True
    if whole and type_ in _WHOLE:
        params.output_tensor_type = params.token_embedding_type = _WHOLE[type_]
    override = lib.llama_model_kv_override
    notes = (override * 2)()  # ends with an empty key
    notes[0].tag = _STRING
    notes[0].key = PROVENANCE.encode()
    notes[0].value.val_str = origin.encode("utf-8", "replace")[:_LONGEST]
    params.kv_overrides = ctypes.cast(notes, ctypes.POINTER(override))
    mark = library.log_mark()
    code = _watched(
        lambda: lib.llama_model_quantize(_path(source), _path(part), ctypes.byref(params)), mark, progress, n
    )
    if code != 0:
        why = library.reason_since(mark, f"llama.cpp says {code}")
        raise ModelError(f"{source} could not be quantized to {type_}", why)


def _path(path: Path) -> bytes:
    return library.encode_path(path)


def _watched(work: Any, mark: int, progress: Progress | None, n: int) -> int:
    """Run `work` in a thread and report how many of `n` tensors its log mentions."""
    if progress is None:
        return int(work())
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(work()), name="quantize")
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.2)
            numbers = [re.match(r"\[ *(\d+)/", line) for line in library.log_since(mark)]
            done = max((int(found[1]) for found in numbers if found), default=0)
            progress(min(1.0, done / max(1, n)))
    finally:
        thread.join()  # llama.cpp cannot be stopped here, and writes to a file of ours
    return codes[0] if codes else -1
