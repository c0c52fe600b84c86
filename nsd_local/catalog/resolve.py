"""From what a user types after `-m` or `-d` to a model file on this machine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from nsd_local.catalog.catalog import load_catalog
from nsd_local.catalog.choose import SHARD, shards_of
from nsd_local.catalog.entry import Entry, HubSource, Pair
from nsd_local.catalog.find import find
from nsd_local.catalog.model_file import ModelFile
from nsd_local.catalog.probe import check_file, expanded, is_there, shown
from nsd_local.catalog.pull import Puller
from nsd_local.catalog.reporter import Reporter, Silent
from nsd_local.catalog.store import Record, Store
from nsd_local.errors import ModelError, UsageError

Role = Literal["target", "draft"]
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*(:[\w./-]+)?")


def resolve(
    spec: str,
    *,
    role: Role = "target",
    offline: bool = False,
    reporter: Reporter | None = None,
    store: Store | None = None,
) -> ModelFile:
    """The model that `spec` means: a catalog name (of a model or a pair), a GGUF path, or `hf-repo:quant`.

    A pair's name stands for its target or its draft, by `role`. What is not on this machine is fetched, after
    saying how large it is; with `offline` that is a `ModelError`. A name that means nothing is a `UsageError`
    with the closest names. The result of a path is not verified (`trust` is "none").
    """
    meant = interpret(spec, role=role)
    if isinstance(meant, Path):
        return from_path(meant)
    store, reporter = store or Store(), reporter or Silent()
    if offline:
        record = find(meant, store, reporter)
        if record is None:
            raise ModelError(
                f"{meant.name} is not on this machine, and --offline forbids fetching it",
                "",
                f"Fetch it while online with: nsd-local pull {spec}",
            )
    else:
        record = Puller(store, reporter).pull(meant)
    return model_file(meant, record)


def locate(spec: str, *, role: Role = "target", store: Store | None = None) -> ModelFile | None:
    """Like `resolve`, but never fetches and tells nothing: None where the model is not on this machine."""
    meant = interpret(spec, role=role)
    if isinstance(meant, Path):
        return from_path(meant)
    record = find(meant, store or Store(), Silent())
    return None if record is None else model_file(meant, record)


def interpret(spec: str, *, role: Role = "target") -> Entry | Path:
    """What `spec` means, not looking for it: an entry (made up for `hf-repo:quant`) or a path."""
    if not spec.strip():
        raise UsageError(
            f"The name of the {role} model is empty",
            "",
            "Give a catalog name (nsd-local list) or the path of a GGUF file",
        )
    catalog = load_catalog()
    named = catalog.find(spec)
    if isinstance(named, Pair):
        return catalog.models[named.target if role == "target" else named.draft]
    if named is not None:
        return named
    path = expanded(Path(spec))
    if _looks_like_path(spec) or is_there(path):
        return path
    if _REPO.fullmatch(spec):
        return hub_entry(spec)
    close = catalog.close_to(spec)
    raise UsageError(
        f"There is no model or pair called {shown(spec)!r}",
        "",
        f"Did you mean {' or '.join(close)}?"
        if close
        else "nsd-local list shows the names; a GGUF path or hf-repo:quant works too",
    )


def hub_entry(spec: str) -> Entry:
    """An entry for `owner/repository:QUANT`, `owner/repository:file.gguf` or `owner/repository`."""
    repo, _, wanted = spec.partition(":")
    quant = wanted if wanted.lower().endswith(".gguf") else wanted.upper()
    name = f"{repo}:{quant}" if quant else repo
    return Entry(name, name, "licence: see the repository", quant, (HubSource(repo),))


def from_path(path: Path) -> ModelFile:
    """The model at a path of the user's. That it is a file is checked here; llama.cpp judges the rest."""
    check_file(path)
    match = SHARD.search(path.name)
    files = tuple(path.with_name(name) for name in shards_of(path.name)) if match else (path,)
    if path.is_dir():
        inside = sorted(one.name for one in path.glob("*.gguf"))
        raise ModelError(
            f"{path} is a folder, not a GGUF file",
            f"It holds {', '.join(inside[:5])}" if inside else "It holds none",
        )
    missing = [one for one in files if not one.is_file()]
    if missing:
        raise ModelError(f"{path} is one part of a split model", f"Missing: {', '.join(one.name for one in missing)}")
    size = sum(one.stat().st_size for one in files)
    return ModelFile(SHARD.sub("", path.name).removesuffix(".gguf"), files, "none", size, origin="a path of yours")


def model_file(entry: Entry, record: Record) -> ModelFile:
    draft = load_catalog().draft_for(entry.name)
    return ModelFile(
        name=entry.name,
        files=record.paths,
        trust=record.trust,
        size=record.size,
        sha256=record.files[0].sha256 if len(record.files) == 1 else None,
        licence=entry.licence,
        draft=draft.name if draft is not None else None,
        origin=record.origin,
    )


def _looks_like_path(spec: str) -> bool:
    if _REPO.fullmatch(spec) and ":" in spec:
        return False
    starts = spec.startswith(("~", "/", "./", "../", "\\", ".\\", "..\\")) or re.match(r"[A-Za-z]:[\\/]", spec)
    return bool(starts) or spec.lower().endswith(".gguf")
