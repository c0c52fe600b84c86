"""Fetching from the Hub: its cache, interruptions, wrong bytes."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nsd_local.catalog import hub as hub_source
from nsd_local.catalog.entry import Entry, HubSource
from nsd_local.catalog.home import hub_cache
from nsd_local.catalog.pull import Puller, files_of, remove
from nsd_local.catalog.resolve import hub_entry, resolve
from nsd_local.catalog.store import Store
from nsd_local.errors import DownloadError, ModelError
from tests.catalog.conftest import DATA, FILE, PACKAGE, REPO, VERSION, Notes
from tests.catalog.standin_hub import StandInHub
from tests.catalog.wheels import write_parts

SHA = hashlib.sha256(DATA).hexdigest()


def no_finished_file(folder: Path) -> bool:
    """Is there nothing in the Hub's cache that a program would take for a model?"""
    blobs = folder / f"models--{REPO.replace('/', '--')}"
    return not list(folder.rglob("*.gguf")) and not (blobs / "blobs" / SHA).exists()


def test_the_hub_comes_first_and_its_cache_keeps_the_file(
    hub: StandInHub, entry: Entry, store: Store, notes: Notes
) -> None:
    record = Puller(store, notes).pull(entry)
    (path,) = record.paths
    assert path.read_bytes() == DATA
    assert record.trust == "catalog"
    assert hub_cache() in path.parents
    assert not store.path_of(FILE).exists()
    assert "from the Hugging Face Hub (somebody/tiny-GGUF)" in notes.lines[0]
    assert notes.steps[-1][1] == len(DATA)
    # What huggingface_hub itself finds in its cache is this very file.
    from huggingface_hub import try_to_load_from_cache

    assert try_to_load_from_cache(REPO, FILE, cache_dir=hub_cache(), revision="c" * 40) == str(path)


def test_what_is_here_is_not_fetched_again(hub: StandInHub, entry: Entry, store: Store, notes: Notes) -> None:
    first = Puller(store, notes).pull(entry)
    second = Puller(store, Notes()).pull(entry)
    assert second == first
    assert [name for name, _ in hub.downloads] == [FILE]


def test_a_file_that_another_program_fetched_into_the_cache_is_taken(
    hub: StandInHub, entry: Entry, store: Store, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import hf_hub_download

    hf_hub_download(REPO, FILE, cache_dir=hub_cache(), endpoint=hub.url)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    record = Puller(store, notes).pull(entry)
    assert record.paths[0].read_bytes() == DATA
    assert notes.lines == []
    without_hash = replace(entry, name="other", file=None, size=None, sha256=None, sources=(HubSource(REPO),))
    assert Puller(store, notes).pull(without_hash).trust == "hub"


def test_a_broken_connection_is_continued(hub: StandInHub, entry: Entry, store: Store, notes: Notes) -> None:
    hub.break_after = [1_200_000, 300_000]
    assert Puller(store, notes).pull(entry).paths[0].read_bytes() == DATA
    offsets = [offset for _, offset in hub.downloads]
    assert offsets[0] == 0
    assert sorted(set(offsets)) == offsets
    assert offsets[-1] >= 1_000_000


def test_a_connection_that_always_breaks_gives_up(hub: StandInHub, entry: Entry, store: Store, notes: Notes) -> None:
    hub.break_after = [0] * 50
    only_hub = replace(entry, sources=(HubSource(REPO),))
    with pytest.raises(DownloadError, match="broke off"):
        Puller(store, notes).pull(only_hub)
    assert len(hub.downloads) == hub_source.TRIES
    assert no_finished_file(hub_cache())


def test_wrong_bytes_never_get_the_final_name(hub: StandInHub, entry: Entry, store: Store, notes: Notes) -> None:
    hub.sent_instead[FILE] = DATA[:-1] + b"?"
    only_hub = replace(entry, sources=(HubSource(REPO),))
    with pytest.raises(DownloadError, match="not the expected ones"):
        Puller(store, notes).pull(only_hub)
    assert no_finished_file(hub_cache())
    assert not list(hub_cache().rglob("*.incomplete"))
    assert store.recall(entry.name) is None
    hub.sent_instead.clear()
    assert Puller(store, notes).pull(only_hub).paths[0].read_bytes() == DATA


def test_other_bytes_than_the_catalog_knows_are_refused_before_the_download(
    hub: StandInHub, entry: Entry, store: Store, notes: Notes
) -> None:
    hub.repos[REPO][FILE] = b"GGUF another file"
    with pytest.raises(DownloadError, match="has other bytes under the name"):
        Puller(store, notes).pull(replace(entry, sources=(HubSource(REPO),)))
    assert hub.downloads == []


def test_an_unknown_repository_is_named(hub: StandInHub, store: Store, notes: Notes) -> None:
    with pytest.raises(DownloadError, match="no public repository nobody/nothing"):
        Puller(store, notes).pull(hub_entry("nobody/nothing:Q4_K_M"))


def test_a_repo_and_a_quantization_name_a_model(hub: StandInHub, store: Store, notes: Notes) -> None:
    hub.repos[REPO] = {"tiny-Q8_0.gguf": b"GGUF eight", FILE: DATA, "mmproj-tiny-Q8_0.gguf": b"GGUF eyes"}
    found = resolve(f"{REPO}:q8_0", reporter=notes)
    assert found.path.read_bytes() == b"GGUF eight"
    assert (found.trust, found.name) == ("hub", f"{REPO}:Q8_0")
    assert resolve(REPO).path.read_bytes() == DATA  # the usual quantization
    assert resolve(f"{REPO}:Q8_0", offline=True) == found
    with pytest.raises(ModelError, match=r"no file for 'Q5_K_M'.*It has Q4_K_M, Q8_0"):
        resolve(f"{REPO}:Q5_K_M")


def test_all_parts_of_a_split_file_are_fetched(hub: StandInHub, store: Store, notes: Notes) -> None:
    parts = {f"Q4_K_M/big-Q4_K_M-{n:05}-of-00003.gguf": b"GGUF part %d" % n for n in (1, 2, 3)}
    hub.repos[REPO] = dict(reversed(parts.items()))
    found = resolve(f"{REPO}:Q4_K_M", reporter=notes)
    assert [path.read_bytes() for path in found.files] == list(parts.values())
    assert found.path.name == "big-Q4_K_M-00001-of-00003.gguf"
    assert len({path.parent for path in found.files}) == 1
    del hub.repos[REPO]["Q4_K_M/big-Q4_K_M-00002-of-00003.gguf"]
    remove(hub_entry(found.name), store.recall(found.name), store)
    with pytest.raises(ModelError, match="lacks parts"):
        resolve(f"{REPO}:Q4_K_M")


def test_two_fetches_at_once_share_one_download(hub: StandInHub, entry: Entry, store: Store) -> None:
    hub.stall_after = 1_000
    waits = threading.Event()

    class Second(Notes):
        def say(self, line: str) -> None:
            super().say(line)
            waits.set()

    second, results = Second(), []
    threads = [
        threading.Thread(target=lambda telling=telling: results.append(Puller(store, telling).pull(entry)))
        for telling in (Notes(), second)
    ]
    threads[0].start()
    assert hub.stalled.wait(60)
    threads[1].start()
    assert waits.wait(60)
    hub.go_on.set()
    for thread in threads:
        thread.join(60)
    assert second.lines == ["Another nsd-local is fetching tiny; waiting for it."]
    assert len(results) == 2
    assert results[0] == results[1]
    assert len(hub.downloads) == 1


CHILD = """
import sys
from nsd_local.catalog.resolve import resolve
resolve(sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_killed_fetch_leaves_nothing_finished_and_goes_on(hub: StandInHub, store: Store, notes: Notes) -> None:
    hub.stall_after = 2_500_000
    child = subprocess.Popen([sys.executable, "-c", CHILD, f"{REPO}:Q4_K_M"], stderr=subprocess.DEVNULL)
    try:
        assert hub.stalled.wait(60)
        partial = hub_cache() / f"models--{REPO.replace('/', '--')}" / "blobs" / f"{SHA}{hub_source.INCOMPLETE}"
        deadline = time.monotonic() + 60
        while not (partial.exists() and partial.stat().st_size > 0):
            assert time.monotonic() < deadline
            assert child.poll() is None
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert no_finished_file(hub_cache())
    assert list(store.records()) == []
    hub.stall_after = None
    hub.go_on.set()
    assert resolve(f"{REPO}:Q4_K_M", reporter=notes).path.read_bytes() == DATA
    assert hub.downloads[-1][1] > 0  # it went on where it was


def test_rm_frees_the_bytes_in_the_hub_cache(hub: StandInHub, entry: Entry, store: Store, notes: Notes) -> None:
    record = Puller(store, notes).pull(entry)
    assert remove(entry, record, store) == len(DATA)
    assert no_finished_file(hub_cache())
    assert store.recall(entry.name) is None


def broken_off(hub: StandInHub) -> Path:
    """Lets the next fetch break off for good; where its bytes will be."""
    hub.break_after = [1_200_000] + [0] * 50
    return hub_cache() / f"models--{REPO.replace('/', '--')}" / "blobs" / f"{SHA}{hub_source.INCOMPLETE}"


def test_rm_frees_what_an_interrupted_fetch_left(hub: StandInHub, entry: Entry, store: Store, notes: Notes) -> None:
    partial = broken_off(hub)
    only_hub = replace(entry, sources=(HubSource(REPO),))
    with pytest.raises(DownloadError):
        Puller(store, notes).pull(only_hub)
    other = partial.with_name(f"{'0' * 64}{hub_source.INCOMPLETE}")
    other.write_bytes(b"of another model")
    for meant in (only_hub, hub_entry(REPO)):  # whose hash is known, and whose is not
        left = files_of(meant, None, store)
        assert left == ([partial] if meant is only_hub else [other])
        size = left[0].stat().st_size
        assert size > 0
        assert remove(meant, None, store) == size
    assert not list(hub_cache().rglob("*.incomplete"))


def test_what_one_source_began_goes_when_another_has_it_all(
    hub: StandInHub, entry: Entry, index: Path, store: Store, notes: Notes
) -> None:
    partial = broken_off(hub)
    write_parts(index, PACKAGE, VERSION, DATA, 3)
    assert Puller(store, notes).pull(entry).paths == (store.path_of(FILE),)
    assert hub.downloads
    assert not partial.exists()


def test_a_turn_that_cannot_be_taken_names_the_folder(entry: Entry, store: Store, notes: Notes) -> None:
    store.folder.mkdir(parents=True)
    (store.folder / "locks").write_text("in the way")
    with pytest.raises(DownloadError, match="NSD_LOCAL_HOME") as caught:
        Puller(store, notes).pull(entry)
    assert str(store.folder) in str(caught.value)
