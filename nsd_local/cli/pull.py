"""`nsd-local pull`: fetch models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nsd_local.catalog import hub_cache
from nsd_local.catalog.catalog import load_catalog
from nsd_local.catalog.disk import free_bytes
from nsd_local.catalog.entry import Entry, HubSource, Pair
from nsd_local.catalog.find import find
from nsd_local.catalog.pull import Puller
from nsd_local.catalog.reporter import Silent
from nsd_local.catalog.resolve import interpret
from nsd_local.catalog.store import Store
from nsd_local.cli.reporter import reporter
from nsd_local.errors import UsageError


def pull(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Models or pairs (nsd-local list), or hf-repo:quant.",
            show_default="the default pair",
            metavar="NAME...",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be fetched.")] = False,
) -> None:
    """Fetch models, verify them, and keep them for later.

    Goes on where an interrupted fetch stopped. What is here already is only checked.
    """
    entries = entries_of(names or ["default"])
    store = Store()
    if dry_run:
        for entry in entries:
            _tell_plan(entry, store)
        return
    with reporter() as telling:
        puller = Puller(store, telling)
        done = [(entry, puller.pull(entry)) for entry in entries]
    for entry, record in done:
        print(f"{entry.name}: {record.paths[0]} ({record.size / 1e9:.2f} GB, verified)")


def entries_of(names: list[str]) -> list[Entry]:
    """The models that the names mean, each once; a pair means both of its."""
    catalog = load_catalog()
    found: dict[str, Entry] = {}
    for name in names:
        row = catalog.find(name)
        for meant in catalog.members(row) if isinstance(row, Pair) else [interpret(name)]:
            if isinstance(meant, Path):
                raise UsageError(f"{name} is a path", "only named models and hf-repo:quant can be fetched")
            found[meant.name] = meant
    return list(found.values())


def _tell_plan(entry: Entry, store: Store) -> None:
    record = find(entry, store, Silent())
    if record is not None:
        print(f"{entry.name}: already here and verified: {record.paths[0]}")
        return
    print(f"{entry.name}: would fetch {entry.size_text} ({entry.quant or 'a usual quantization'}, {entry.licence})")
    for n, source in enumerate(entry.sources, 1):
        folder = hub_cache() if isinstance(source, HubSource) else store.folder
        print(f"  {n}. from the {source} into {folder} ({free_bytes(folder) / 1e9:.1f} GB free)")
    print(f"  {verification_of(entry)}")


def verification_of(entry: Entry) -> str:
    """Whose hash the bytes are verified against."""
    if entry.sha256 is not None:
        return f"verified against the catalog's SHA-256 {entry.sha256}"
    return "verified against the SHA-256 that the Hub reports (the catalog has none for it)"
