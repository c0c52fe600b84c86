"""Conversations on disk: one JSON file each, in a folder of the user's own data."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from platformdirs import user_data_path

from nsd_local.catalog.disk import why
from nsd_local.chat.archive import ArchiveError, Heading, VersionError, heading, pack, unpack
from nsd_local.chat.conversation import Conversation, now
from nsd_local.errors import NsdError, UsageError

Kept = TypeVar("Kept", Heading, Conversation)
ID = re.compile(r"[0-9a-f]{32}")


class StoreError(NsdError):
    """A conversation could not be read or written."""


def conversations_folder() -> Path:
    """Where conversations are kept: below `$NSD_LOCAL_HOME`, else in the user's data folder."""
    chosen = os.environ.get("NSD_LOCAL_HOME")
    base = Path(chosen).expanduser().absolute() if chosen else user_data_path("nsd-local", appauthor=False)
    return base / "conversations"


class Store:
    """The kept conversations. A file that cannot be read is set aside, never deleted; `problems` says so."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or conversations_folder()
        self.problems: list[str] = []
        self._entries: dict[Path, tuple[int, int, Heading]] = {}  # time and size of the file, to read it once only

    def list(self) -> list[Heading]:
        """All conversations, the one used last first."""
        if not self.folder.is_dir():
            return []
        entries = [entry for path in self.folder.glob("*.json") if (entry := self._entry(path))]
        return sorted(entries, key=lambda entry: (entry.updated, entry.id), reverse=True)

    def load(self, id_: str) -> Conversation:
        """Raises StoreError where there is none, or its file is damaged (which is then set aside)."""
        path = self._path(id_)
        if not path.is_file():
            raise StoreError("There is no such conversation", f"{path.name} is not in {self.folder}")
        conversation = self._read(path, unpack)
        if conversation is None:
            raise StoreError(self.problems[-1])
        return conversation

    def save(self, conversation: Conversation) -> Path:
        """Writes it whole or not at all; returns the file."""
        path = self._path(conversation.id)
        write_atomically(path, json.dumps(pack(conversation), ensure_ascii=False, separators=(",", ":")))
        return path

    def rename(self, id_: str, title: str) -> None:
        """Gives it another title; an empty one brings its first words back."""
        conversation = self.load(id_)
        conversation.title = title
        conversation.updated = now()
        self.save(conversation)

    def delete(self, id_: str) -> None:
        """Removes it for good; does nothing where it is gone already."""
        try:
            self._path(id_).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError("The conversation cannot be deleted", why(error)) from error

    def find(self, name: str) -> Heading:
        """The one conversation with this title, or whose title or id begins so; else raises UsageError."""
        entries = self.list()
        wanted = name.strip().casefold()
        for matches in (
            [entry for entry in entries if entry.title.casefold() == wanted],
            [entry for entry in entries if wanted and entry.title.casefold().startswith(wanted)],
            [entry for entry in entries if wanted and entry.id.startswith(wanted)],
        ):
            if len(matches) == 1:
                return matches[0]
            if matches:
                raise UsageError(
                    f"{len(matches)} conversations are called {name!r}",
                    "",
                    "Give more of the id or the title",
                )
        raise UsageError(f"There is no conversation {name!r}", "", "Look at the list of conversations")

    def _path(self, id_: str) -> Path:
        if not ID.fullmatch(id_):  # an id may come from a web page: it must not lead out of the folder
            raise UsageError("This is not the id of a conversation", repr(id_[:40]))
        return self.folder / f"{id_}.json"

    def _entry(self, path: Path) -> Heading | None:
        try:
            stat = path.stat()
        except OSError:
            return None  # deleted meanwhile
        known = self._entries.get(path)
        if known and known[:2] == (stat.st_mtime_ns, stat.st_size):
            return known[2]
        entry = self._read(path, heading)
        if entry is not None:
            self._entries[path] = (stat.st_mtime_ns, stat.st_size, entry)
        return entry

    def _read(self, path: Path, read: Callable[[object], Kept]) -> Kept | None:
        """What `read` makes of a file; None where it cannot be used, with the reason in `problems`."""
        try:
            kept = read(json.loads(path.read_text(encoding="utf-8")))
            if kept.id != path.stem:
                raise ValueError("its name is not its id")
        except (OSError, VersionError) as error:
            self.problems.append(f"The conversation {path} cannot be read: {why(error)}")
            return None
        except (ArchiveError, ValueError) as error:  # JSON and UTF-8 errors are ValueErrors
            self._set_aside(path, str(error))
            return None
        return kept

    def _set_aside(self, path: Path, reason: str) -> None:
        """Renames a damaged file, so that nothing overwrites it and the list works."""
        for n in range(1_000):
            aside = path.with_suffix(f".damaged{n or ''}")
            if not aside.exists():
                break
        try:
            path.replace(aside)
        except OSError as error:
            self.problems.append(f"The damaged conversation {path} cannot be set aside: {why(error)}")
            return
        self.problems.append(f"A damaged conversation was set aside as {aside} ({reason})")


def write_atomically(path: Path, text: str) -> None:
    """Writes a text file so that a reader, or a crash, finds the old one or the new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
    except OSError as error:
        raise StoreError(f"{path.parent} cannot be written", why(error)) from error
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except OSError as error:
        raise StoreError(f"{path} cannot be written", why(error)) from error
    finally:
        Path(name).unlink(missing_ok=True)
