"""A stand-in for the Hugging Face Hub on this machine: the few answers that fetching a model needs."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "c" * 40


@dataclass
class StandInHub:
    """Repositories by name, each a dict of file name to bytes; how to misbehave; and what was asked for."""

    repos: dict[str, dict[str, bytes]]
    sent_instead: dict[str, bytes] = field(default_factory=dict)  # by file name: other bytes than the listing says
    break_after: list[int] = field(default_factory=list)  # the next downloads end after so many bytes
    stall_after: int | None = None  # a download waits there until `go_on` is set
    stalled: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)
    downloads: list[tuple[str, int]] = field(default_factory=list)  # (file name, offset) of each GET
    url: str = ""

    def listing(self, repo: str) -> dict[str, object]:
        files = [
            {
                "rfilename": name,
                "size": len(data),
                "lfs": {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 134},
            }
            for name, data in self.repos[repo].items()
        ]
        return {"id": repo, "sha": COMMIT, "siblings": files}


@contextmanager
def serving(hub: StandInHub) -> Iterator[StandInHub]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *arguments: object) -> None:
            return None

        def do_HEAD(self) -> None:
            self._answer(head=True)

        def do_GET(self) -> None:
            self._answer(head=False)

        def _answer(self, head: bool) -> None:
            path = unquote(urlsplit(self.path).path)
            if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)", path):
                self._json(hub.listing(match.group(1)) if match.group(1) in hub.repos else None)
            elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
                self._file(match.group(1), match.group(2), head)
            else:
                self._json(None)

        def _json(self, document: object | None) -> None:
            body = json.dumps(document or {"error": "Repository not found"}).encode()
            self.send_response(200 if document else 404)
            if document is None:
                self.send_header("X-Error-Code", "RepoNotFound")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _file(self, repo: str, name: str, head: bool) -> None:
            listed = hub.repos[repo][name]
            data = hub.sent_instead.get(name, listed)
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
            offset = int(asked.group(1)) if asked else 0
            self.send_response(206 if asked else 200)
            if asked:
                self.send_header("Content-Range", f"bytes {offset}-{len(data) - 1}/{len(data)}")
            self.send_header("Content-Length", str(len(data) - offset))
            self.send_header("ETag", f'"{hashlib.sha256(listed).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if not head:
                hub.downloads.append((name, offset))
                self._send(data[offset:])

        def _send(self, data: bytes) -> None:
            if hub.break_after:
                self.wfile.write(data[: hub.break_after.pop(0)])
                self.close_connection = True
                return
            if hub.stall_after is not None:
                self.wfile.write(data[: hub.stall_after])
                self.wfile.flush()
                hub.stalled.set()
                hub.go_on.wait()
                data = data[hub.stall_after :]
            try:
                self.wfile.write(data)
            except OSError:  # the client was killed while we waited
                self.close_connection = True

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.go_on.set()
        server.shutdown()
        server.server_close()
        thread.join()
