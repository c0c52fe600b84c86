"""Finding a model that is already on this machine, with the bytes it should have. No network here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from nsd_local.catalog.checksum import sha256_of
from nsd_local.catalog.choose import choose_files
from nsd_local.catalog.entry import Entry, HubSource
from nsd_local.catalog.home import hub_cache
from nsd_local.catalog.reporter import Reporter
from nsd_local.catalog.store import Record, Stamp, Store
from nsd_local.errors import ModelError


def find(entry: Entry, store: Store, reporter: Reporter) -> Record | None:
    """The model's verified files, or None where it must be fetched.

    Remembered files are taken as they are. Others (put into the folder by hand, or fetched into the Hub's
    cache by another program) are hashed once and then remembered. A file with other bytes is reported and not
    taken.
    """
    record = store.recall(entry.name)
    if record is not None and (entry.sha256 is None or [stamp.sha256 for stamp in record.files] == [entry.sha256]):
        return record
    found = _in_folder(entry, store, reporter) or _in_hub_cache(entry, reporter)
    if found is not None:
        store.remember(found)
    return found


def _in_folder(entry: Entry, store: Store, reporter: Reporter) -> Record | None:
    if entry.file is None or entry.sha256 is None:
        return None
    path = store.path_of(entry.file)
    if not path.is_file():
        return None
    size = path.stat().st_size
    if size != entry.size:
        reporter.say(f"{path} is not {entry.name}: {size} bytes instead of {entry.size}.")
        return None
    found = sha256_of(path, reporter, f"checking {entry.file}")
    if found != entry.sha256:
        reporter.say(f"{path} is not {entry.name}: its SHA-256 is {found}, not {entry.sha256}.")
        return None
    return Record(entry.name, "catalog", str(path.parent), (Stamp.of(path, found),))


def _in_hub_cache(entry: Entry, reporter: Reporter) -> Record | None:
    if not (entry.file or entry.quant):
        return None  # which quantization is the usual one, only the whole list of the repository tells
    for source in entry.sources:
        if not isinstance(source, HubSource):
            continue
        for snapshot in _snapshots(source.repo):
            record = _in_snapshot(entry, source, snapshot, reporter)
            if record is not None:
                return record
    return None


def _snapshots(repo: str) -> Iterator[dict[str, Path]]:
    """For each cached revision of the repository, newest first: the names in it and their paths."""
    if not (hub_cache() / f"models--{repo.replace('/', '--')}" / "snapshots").is_dir():
        return  # spares the import for the many who never used the Hub
    from huggingface_hub import scan_cache_dir

    for cached in scan_cache_dir(hub_cache()).repos:
        if cached.repo_id == repo and cached.repo_type == "model":
            for revision in sorted(cached.revisions, key=lambda one: one.last_modified, reverse=True):
                yield {
                    file.file_path.relative_to(revision.snapshot_path).as_posix(): file.file_path
                    for file in revision.files
                }


def _in_snapshot(entry: Entry, source: HubSource, there: dict[str, Path], reporter: Reporter) -> Record | None:
    try:
        names = choose_files(there, entry.file or entry.quant, source.repo)
    except ModelError:  # this revision was cached without the file, or with some of its shards
        return None
    stamps = []
    for name in names:
        path = there[name]
        # The name of a blob is the SHA-256 that the Hub reported; a system without symbolic links does not
        # keep it.
        blob = path.resolve().name
        expected = entry.sha256 or (blob if re.fullmatch(r"[0-9a-f]{64}", blob) else None)
        if expected is None or (entry.size is not None and path.stat().st_size != entry.size):
            return None
        found = sha256_of(path, reporter, f"checking {name}")
        if found != expected:
            reporter.say(f"{path} is not {entry.name}: its SHA-256 is {found}, not {expected}.")
            return None
        stamps.append(Stamp.of(path, found))
    return Record(entry.name, "catalog" if entry.sha256 else "hub", str(source), tuple(stamps))
