"""Which files of a repository are meant by a quantization such as `Q4_K_M`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

from nsd_local.errors import ModelError

SHARD = re.compile(r"-(\d{5})-of-(\d{5})(?=\.gguf$)", re.IGNORECASE)
_QUANT = re.compile(r"(?:^|[-._/])((?:UD-)?(?:I?Q\d\w*|TQ\d_\d|MXFP4\w*|BF16|F16|F32))(?=[-./])", re.IGNORECASE)
_NOT_A_LANGUAGE_MODEL = ("mmproj", "imatrix")
_USUAL = ("Q4_K_M", "Q4_0", "Q8_0")


def choose_files(names: Iterable[str], wanted: str, where: str) -> tuple[str, ...]:
    """Those of `names` (paths in a repository) that make up the model `wanted`: one, or all shards in order.

    `wanted` is a file name, a quantization, or empty for a usual one. A whole file is preferred to a split,
    the top folder to a folder below, and a short name to a long one. Raises `ModelError` naming what there
    is.
    """
    files = [
        name
        for name in names
        if name.lower().endswith(".gguf") and not any(word in name.lower() for word in _NOT_A_LANGUAGE_MODEL)
    ]
    if not files:
        raise ModelError(f"{where} has no GGUF file", "", "Name a repository of GGUF files (often called ...-GGUF)")
    for word in (wanted,) if wanted else _USUAL:
        fitting = [name for name in files if _fits(name, word)]
        if fitting:
            return _with_shards(min(fitting, key=_preference), files, where)
    if not wanted and len({SHARD.sub("", name) for name in files}) == 1:
        return _with_shards(min(files), files, where)
    raise _unknown(wanted, files, where)


def quants_of(names: Iterable[str]) -> list[str]:
    """The quantizations that the file names speak of."""
    return sorted({match.group(1).upper() for name in names for match in _QUANT.finditer(name)})


def shards_of(first: str) -> tuple[str, ...]:
    """All names of a split whose one shard is called `first`; a name that is no shard stands alone."""
    match = SHARD.search(first)
    if match is None:
        return (first,)
    total = int(match.group(2))
    return tuple(f"{first[: match.start()]}-{n:05}-of-{total:05}{first[match.end() :]}" for n in range(1, total + 1))


def _fits(name: str, wanted: str) -> bool:
    low, word = name.lower(), wanted.lower()
    if word.endswith(".gguf"):
        return low == word or low.endswith("/" + word)
    return re.search(rf"(?:^|[-._/]){re.escape(word)}(?=[-./])", low) is not None


def _preference(name: str) -> tuple[bool, int, int, str]:
    return (SHARD.search(name) is not None, name.count("/"), len(name), name)


def _with_shards(chosen: str, files: Sequence[str], where: str) -> tuple[str, ...]:
    shards = shards_of(chosen)
    missing = [shard for shard in shards if shard not in files]
    if missing:
        raise ModelError(f"{where} lacks parts of the split file {chosen}", f"Missing: {', '.join(missing)}")
    return shards


def _unknown(wanted: str, files: Sequence[str], where: str) -> ModelError:
    there = quants_of(files)
    close = difflib.get_close_matches(wanted.upper(), there, n=1)
    said = f"{where} has no file for {wanted!r}" if wanted else f"{where} has several files and none of the usual ones"
    do = f"Did you mean {close[0]}?" if close else "Name one of them after a colon, or a file"
    return ModelError(said, f"It has {', '.join(there) if there else ', '.join(files[:8])}", do)
