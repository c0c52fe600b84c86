"""The page that Gradio serves, as ours: its own title, and no cards for social networks that point at Gradio."""

from __future__ import annotations

import re
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

TITLE = b"<title>nsd-local</title>"
FIRST = Path(__file__).parent / "static" / "frames.js"
_CARDS = re.compile(rb"<meta\s+(?:property=\"og:|name=\"twitter:)[^>]*?/?>\s*")
_TITLE = re.compile(rb"<title>.*?</title>\s*", re.DOTALL)


def cleaned(html: bytes) -> bytes:
    """The page without cards; our title, and the script that must run before Gradio's, in its head."""
    html = _TITLE.sub(b"", _CARDS.sub(b"", html))
    return html.replace(b"<head>", b"<head>\n%b\n<script>%b</script>" % (TITLE, FIRST.read_bytes()), 1)


class Page:
    """Cleans every HTML page on its way out. Pure ASGI: all other responses stay the streams that they are."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start: Message | None = None
        body = bytearray()

        async def gather(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_page(message):
                start = message
            elif start is None:
                await send(message)
            elif message["type"] == "http.response.body":
                body.extend(message.get("body", b""))
                if not message.get("more_body", False):
                    await send(_with_length(start, html := cleaned(bytes(body))))
                    await send({"type": "http.response.body", "body": html if scope["method"] != "HEAD" else b""})

        await self.app(scope, receive, gather if scope["type"] == "http" else send)


def _is_page(start: Message) -> bool:
    headers = dict(start.get("headers", []))
    return headers.get(b"content-type", b"").startswith(b"text/html") and b"content-encoding" not in headers


def _with_length(start: Message, html: bytes) -> Message:
    headers = [(name, value) for name, value in start["headers"] if name != b"content-length"]
    return {**start, "headers": [*headers, (b"content-length", str(len(html)).encode())]}
