"""Files that are already here: taken only with the right bytes, hashed only once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nsd_local.catalog import checksum
from nsd_local.catalog import find as finding
from nsd_local.catalog.entry import Entry
from nsd_local.catalog.find import find
from nsd_local.catalog.store import Store
from tests.catalog.conftest import DATA, Notes


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were hashed."""
    files: list[Path] = []

    def counting(path: Path, reporter: Notes, what: str) -> str:
        files.append(path)
        return checksum.sha256_of(path, reporter, what)

    monkeypatch.setattr(finding, "sha256_of", counting)
    return files


def put(store: Store, entry: Entry, data: bytes) -> Path:
    path = store.path_of(entry.file or "")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_a_file_put_there_by_hand_is_verified_once(
    entry: Entry, store: Store, notes: Notes, hashed: list[Path]
) -> None:
    path = put(store, entry, DATA)
    first = find(entry, store, notes)
    assert first is not None
    assert first.trust == "catalog"
    assert find(entry, Store(), notes) == first
    assert hashed == [path]


def test_a_file_that_changed_is_verified_again(entry: Entry, store: Store, notes: Notes, hashed: list[Path]) -> None:
    path = put(store, entry, DATA)
    assert find(entry, store, notes) is not None
    changed = bytearray(DATA)
    changed[1000] ^= 1
    path.write_bytes(changed)
    os.utime(path, ns=(1, 1))
    assert find(entry, store, notes) is None
    assert len(hashed) == 2
    assert "its SHA-256 is" in notes.lines[-1]


def test_a_file_of_another_size_is_not_even_hashed(
    entry: Entry, store: Store, notes: Notes, hashed: list[Path]
) -> None:
    put(store, entry, DATA[:-1])
    assert find(entry, store, notes) is None
    assert hashed == []
    assert f"{len(DATA) - 1} bytes instead of {len(DATA)}" in notes.lines[-1]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "tiny"}', '{"name": 1, "files": [{"path": 2}]}'])
def test_a_damaged_record_costs_a_second_look_only(text: str, entry: Entry, store: Store, notes: Notes) -> None:
    put(store, entry, DATA)
    good = find(entry, store, notes)
    (record,) = (store.folder / "records").iterdir()
    record.write_text(text)
    assert find(entry, store, notes) == good


def test_a_record_that_cannot_be_written_costs_a_second_look_only(
    entry: Entry, store: Store, notes: Notes, hashed: list[Path]
) -> None:
    path = put(store, entry, DATA)
    (store.folder / "records").write_text("in the way")
    first = find(entry, store, notes)
    assert first is not None
    assert find(entry, store, notes) == first
    assert hashed == [path, path]


def test_a_record_of_other_bytes_than_the_catalog_now_names_does_not_count(
    entry: Entry, store: Store, notes: Notes
) -> None:
    from dataclasses import replace

    put(store, entry, DATA)
    assert find(entry, store, notes) is not None
    assert find(replace(entry, sha256="0" * 64), store, notes) is None


def test_names_that_no_file_system_likes_get_records_of_their_own(store: Store) -> None:
    paths = {store.lock_of(name) for name in ("a/b:Q4", "a-b-Q4", "A/b:Q4", "a%2fb:Q4")}
    assert len(paths) == 4
    assert all(path.parent == store.folder / "locks" for path in paths)
