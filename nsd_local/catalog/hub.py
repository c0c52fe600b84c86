"""The Hugging Face Hub as a source: what a repository has, and fetching a file into the Hub's own cache.

Listing, authentication, addresses and the cache's folders are huggingface_hub's. The bytes are streamed here,
because its own download starts from nothing after an interruption: a partial blob is continued, and enters
the cache only when its SHA-256 is the one expected.
"""

from __future__ import annotations

import os
import queue
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

from nsd_local.catalog.checksum import sha256_of
from nsd_local.catalog.home import hub_cache
from nsd_local.catalog.reporter import Reporter
from nsd_local.catalog.store import put_in_place
from nsd_local.errors import DownloadError

CONNECT_SECONDS = 5.0
READ_SECONDS = 20.0
ANSWER_SECONDS = 12.0  # for the first answer in all, name resolution included, which no socket timeout covers
BLOCK = 1 << 16  # bytes; less than one block of a broken connection is lost
TRIES = 3  # in a row without a byte of progress
INCOMPLETE = ".nsd-local.incomplete"


class UnreachableError(DownloadError):
    """A source that did not answer at all; it is not asked again for the next file."""


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository as the Hub describes it; `sha256` is the Hub's word."""

    name: str
    size: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Listing:
    repo: str
    commit: str
    files: dict[str, HubFile]


def endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


def list_repo(repo: str) -> Listing:
    """What the repository holds now; `UnreachableError` within seconds where the Hub cannot be reached."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    try:
        info = _within(
            ANSWER_SECONDS,
            lambda: HfApi(endpoint=endpoint()).model_info(repo, files_metadata=True, timeout=CONNECT_SECONDS),
        )
    except GatedRepoError as error:
        raise _gated(repo) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise DownloadError(
            f"The Hugging Face Hub has no public repository {repo}",
            "",
            "Check the name; for a private one log in with: hf auth login",
        ) from error
    except _network_errors() as error:
        raise UnreachableError("The Hugging Face Hub cannot be reached", _first_line(error)) from error
    files = {
        item.rfilename: HubFile(item.rfilename, item.size or 0, item.lfs.sha256 if item.lfs else None)
        for item in info.siblings or ()
    }
    return Listing(repo, info.sha or "main", files)


def partial_of(repo: str, file: HubFile) -> Path:
    return _blob_of(repo, file).with_name(f"{file.sha256}{INCOMPLETE}")


def partials(repo: str, sha256: str | None) -> list[Path]:
    """What interrupted fetches left of the file with that hash; where it is not known, of any file of `repo`."""
    return sorted(_blobs(repo).glob(f"{sha256 or '*'}{INCOMPLETE}"))


def fetch(listing: Listing, file: HubFile, reporter: Reporter) -> Path:
    """The file's path in the Hub's cache, verified against `file.sha256`. Continues a partial download."""
    from huggingface_hub import hf_hub_download

    blob = _blob_of(listing.repo, file)
    blob.parent.mkdir(parents=True, exist_ok=True)
    if not _is_good(blob, file, reporter):
        blob.unlink(missing_ok=True)
        partial = partial_of(listing.repo, file)
        _stream(listing, file, partial, reporter)
        _verify(partial, file, reporter)
        put_in_place(partial, blob)
    try:
        # The blob is there: this writes the names of the repository's snapshot and transfers nothing.
        path = Path(
            hf_hub_download(
                listing.repo, file.name, revision=listing.commit, cache_dir=hub_cache(), endpoint=endpoint()
            )
        )
    except _network_errors() as error:
        raise UnreachableError("The Hugging Face Hub cannot be reached", _first_line(error)) from error
    if not path.is_symlink():
        blob.unlink(missing_ok=True)  # systems without symbolic links get a copy: one is enough
    if path.resolve() != blob.resolve() and sha256_of(path, reporter, f"checking {file.name}") != file.sha256:
        path.unlink()
        raise DownloadError(f"The bytes of {file.name} in the Hub's cache are not the expected ones")
    return path


def _blob_of(repo: str, file: HubFile) -> Path:
    if file.sha256 is None:
        raise DownloadError(f"The Hub reports no SHA-256 for {file.name} of {repo}, so it cannot be verified")
    return _blobs(repo) / file.sha256


def _blobs(repo: str) -> Path:
    return hub_cache() / f"models--{repo.replace('/', '--')}" / "blobs"


def _is_good(blob: Path, file: HubFile, reporter: Reporter) -> bool:
    return (
        blob.is_file()
        and blob.stat().st_size == file.size
        and sha256_of(blob, reporter, f"checking {file.name}") == file.sha256
    )


def _verify(partial: Path, file: HubFile, reporter: Reporter) -> None:
    found = sha256_of(partial, reporter, f"verifying {file.name}")
    if found != file.sha256:
        partial.unlink()
        raise DownloadError(
            f"The bytes received for {file.name} are not the expected ones",
            f"SHA-256 {found} instead of {file.sha256}",
            "They were deleted; try again",
        )


def _stream(listing: Listing, file: HubFile, partial: Path, reporter: Reporter) -> None:
    """Append to `partial` until it has all bytes; goes on where a connection broke."""
    failures = 0
    while True:
        before = partial.stat().st_size if partial.exists() else 0
        if before > file.size:
            partial.unlink()
            before = 0
        if before == file.size and partial.exists():
            return
        why = "the connection ended early"
        try:
            _append(listing, file, partial, before, reporter)
        except _network_errors() as error:
            why = _first_line(error)
        after = partial.stat().st_size if partial.exists() else 0
        failures = 0 if after > before else failures + 1
        if failures >= TRIES:
            raise UnreachableError(f"The download of {file.name} from the Hugging Face Hub broke off", why)
        if after < file.size:
            time.sleep(failures)


def _append(listing: Listing, file: HubFile, partial: Path, offset: int, reporter: Reporter) -> None:
    from huggingface_hub import get_session, hf_hub_url
    from huggingface_hub.utils import build_hf_headers

    url = hf_hub_url(listing.repo, file.name, revision=listing.commit, endpoint=endpoint())
    headers = {**build_hf_headers(), "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
    timeout = (CONNECT_SECONDS, READ_SECONDS, READ_SECONDS, CONNECT_SECONDS)
    with get_session().stream("GET", url, headers=headers, timeout=timeout, follow_redirects=True) as answer:
        if answer.status_code in (401, 403):
            raise _gated(listing.repo)
        if answer.status_code >= 400:
            raise DownloadError(f"The Hugging Face Hub answered {answer.status_code} for {file.name}")
        resumed = answer.status_code == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {offset}-")
        done = offset if resumed else 0
        with partial.open("ab" if resumed else "wb") as out:
            for block in answer.iter_bytes(BLOCK):
                out.write(block)
                done += len(block)
                reporter.progress(file.name, done, file.size)


def _gated(repo: str) -> DownloadError:
    return DownloadError(
        f"The repository {repo} is not open to everybody",
        "Its owner asks you to log in and accept a licence",
        "Do so on its page, then run: hf auth login",
    )


_Answer = TypeVar("_Answer")


def _within(seconds: float, ask: Callable[[], _Answer]) -> _Answer:
    """What `ask` returns or raises; `UnreachableError` when it takes longer, its thread left to itself."""
    answers: queue.Queue[tuple[_Answer | None, Exception | None]] = queue.Queue()

    def run() -> None:
        try:
            answers.put((ask(), None))
        except Exception as error:  # noqa: BLE001  carried to the caller's thread and raised there
            answers.put((None, error))

    threading.Thread(target=run, daemon=True, name="hub").start()
    try:
        answer, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise UnreachableError("The Hugging Face Hub cannot be reached", f"No answer in {seconds:.0f} s") from None
    if error is not None:
        raise error
    return cast(_Answer, answer)


def _network_errors() -> tuple[type[Exception], ...]:
    """What a broken connection raises; errors of the local disk are not among them.

    Which HTTP library huggingface_hub uses depends on its release: its error is found through its subclass.
    """
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    http = tuple(kind for kind in HfHubHTTPError.__mro__ if kind.__name__ == "HTTPError")
    return (*http, LocalEntryNotFoundError, ConnectionError, TimeoutError)


def _first_line(error: BaseException) -> str:
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"\[Errno -?\d+\] ", "", line)
