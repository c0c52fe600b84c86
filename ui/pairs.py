"""Which models could be the target, and which of the others could draft for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from nsd_local.catalog import Entry, ModelFile, Pair, interpret, load_catalog, locate, models_folder
from nsd_local.errors import NsdError, PairError

Check = Callable[[ModelFile, ModelFile], str]  # (target, draft) -> why they do not fit, "" if they do


@dataclass(frozen=True, slots=True)
class Offer:
    """A model in a picker."""

    spec: str  # what the command line would be given
    name: str
    note: str = ""
    refused: str = ""  # why it is not offered

    @property
    def label(self) -> str:
        return f"{self.name} · {self.note}" if self.note else self.name


def targets() -> list[Offer]:
    """The default pair's target, what is on this machine, and what the catalog could fetch."""
    catalog = load_catalog()
    default = catalog.models[catalog.default.target]
    offers = [Offer("default", default.title, _where(default, "default"))]
    names = {pair.target for pair in catalog.pairs.values()} | {entry.name for entry in _here(catalog.models.values())}
    offers += [
        Offer(entry.name, entry.title, _where(entry))
        for entry in catalog.models.values()
        if entry.name in names and entry != default
    ]
    return offers + [Offer(str(path), path.name, "file") for path in _loose_files()]


def drafts_for(model: str, check: Check | None = None) -> list[Offer]:
    """Every model that one could think of as a draft for `model`: the fitting ones, then the others and why not."""
    try:
        target, own = interpret(model), locate(model)
    except NsdError:
        return []
    found = [*_known_pairs(target), *_files_here(target, own, check or vocabularies_fit)]
    unique = {offer.spec: offer for offer in reversed(found)}
    return sorted(unique.values(), key=lambda offer: bool(offer.refused))


def _known_pairs(target: Entry | Path) -> Iterator[Offer]:
    if isinstance(target, Path):
        return
    catalog = load_catalog()
    for pair in catalog.pairs.values():
        if isinstance(pair, Pair) and pair.target == target.name:
            draft = catalog.models[pair.draft]
            yield Offer(draft.name, draft.title, _where(draft))


def _files_here(target: Entry | Path, own: ModelFile | None, check: Check) -> Iterator[Offer]:
    """Models on this machine, judged by their own vocabularies where the target is here too (`own`)."""
    for entry in _here(load_catalog().models.values()):
        if entry == target:
            continue
        draft = locate(entry.name)
        if draft is not None:
            yield Offer(entry.name, entry.title, "on this machine", _judge(own, draft, check))
    for path in _loose_files():
        if own is None or path != own.path:
            draft = ModelFile(path.name, (path,), "none", path.stat().st_size)
            yield Offer(str(path), path.name, "file", _judge(own, draft, check))


def _judge(own: ModelFile | None, draft: ModelFile, check: Check) -> str:
    if own is None:
        return "not a pair of the catalog; its vocabulary can be compared once the model is on this machine"
    if draft.size >= own.size:
        return f"it is not smaller than the model ({draft.size / 1e9:.2f} GB against {own.size / 1e9:.2f} GB)"
    return _checked(own, draft, check, own.path.stat().st_mtime_ns, draft.path.stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _checked(target: ModelFile, draft: ModelFile, check: Check, *stamps: int) -> str:
    return check(target, draft)


def vocabularies_fit(target: ModelFile, draft: ModelFile) -> str:
    """llama.cpp's own rule, read from the two files; the weights are mapped, not copied."""
    from nsd_local.engine.compatibility import check_pair  # loads llama.cpp
    from nsd_local.engine.model import Model
    from nsd_local.engine.options import ModelOptions
    from nsd_local.engine.safe_open import ensure_openable

    lightly = ModelOptions(gpu_layers=0, load_mode="mmap", repack=False)
    try:
        for file in (target, draft):
            ensure_openable(file.path, trusted=file.verified)
        with Model.load(target.path, lightly) as one, Model.load(draft.path, lightly) as other:
            check_pair(one, other)
    except PairError as error:
        return str(error)
    except NsdError as error:
        return f"it cannot be read: {error}"
    return ""


def _here(entries: Iterable[Entry]) -> Iterator[Entry]:
    for entry in entries:
        if locate(entry.name) is not None:
            yield entry


def _where(entry: Entry, note: str = "") -> str:
    where = "on this machine" if locate(entry.name) else f"download {entry.size_text}"
    return f"{note}, {where}" if note else where


def _loose_files() -> list[Path]:
    """GGUF files in the models folder that are not the catalog's."""
    folder = models_folder()
    known = {found.path for entry in load_catalog().models.values() if (found := locate(entry.name))}
    return sorted(path for path in folder.glob("*.gguf") if path not in known) if folder.is_dir() else []
