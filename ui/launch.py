"""Serving the app: this machine only, unless there is a password."""

from __future__ import annotations

import errno
import hmac
import socket
import sys
from typing import Any

from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nsd_local.errors import UsageError

from .app import App
from .page import Page
from .theme import head, make

LOCAL = ("127.0.0.1", "localhost", "::1")
HIGHEST_PORT = 65_535
# Whatever a model writes, the browser may talk to this server only. Gradio needs inline scripts and `Function`.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)


class Headers:
    """Adds the content security policy to every response; pure ASGI, so that streams stay streams."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", []),
                    (b"content-security-policy", POLICY.encode()),
                    (b"referrer-policy", b"no-referrer"),
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        await self.app(scope, receive, with_headers)


def check_address(host: str, password: str | None) -> None:
    """Refuses to show a person's chats and machine to the network without a password."""
    if host not in LOCAL and not password:
        raise UsageError(
            f"nsd-local ui will not listen on {host} without a password",
            "everybody who reaches this address could read your conversations and use your machine",
            "Give one with --password or in the environment variable NSD_LOCAL_PASSWORD, or use 127.0.0.1",
        )


def check_port(host: str, port: int | None) -> None:
    """Refuses a port that cannot be listened on; to be called before a model is loaded. None and 0 are any free one."""
    if port is None:
        return
    if not 0 <= port <= HIGHEST_PORT:
        raise UsageError(f"--port must lie in 0..{HIGHEST_PORT}, not {port}")
    try:
        _free_port(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise UsageError(f"Port {port} is in use", "", "Choose another with --port") from None
        raise UsageError(
            f"nsd-local ui cannot listen on port {port} of {host}", error.strerror or "", "Choose another with --port"
        ) from None


def _free_port(host: str, port: int) -> int:
    """The port, or any free one for 0. Raises OSError where it cannot be had."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as trial:
        if sys.platform != "win32":  # where it would share a port that is in use
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        trial.bind((host, port))
        return int(trial.getsockname()[1])


def _middleware(host: str) -> list[Middleware]:
    """Bound to this machine, a page of the network could still reach the app under a name of its own that it lets
    resolve to 127.0.0.1 (DNS rebinding): other names than this machine's are refused.
    """
    names = [*LOCAL, "[::1]"]
    guards = [Middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)] if host in LOCAL else []
    return [*guards, Middleware(Headers), Middleware(Page)]


def serve(
    app: App, *, host: str = "127.0.0.1", port: int | None = None, password: str | None = None, browser: bool = False
) -> str:
    """Starts serving in threads of its own and returns the address. Raises UsageError without a needed password."""
    check_address(host, password)
    check_port(host, port)

    def knows(_: str, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (password or "").encode())

    options: dict[str, Any] = {}
    if password:
        options = {
            "auth": knows,
            "auth_message": "Any name will do; the password is the one nsd-local ui was started with.",
        }
    app.blocks.queue(default_concurrency_limit=None)
    app.blocks._queue.sleep_when_free = 0.05  # Gradio's 0.001 s wake a core up a thousand times a second
    app.blocks._queue.progress_update_sleep_when_free = 1.0  # no action here has Gradio's progress bar
    _, url, _ = app.blocks.launch(
        server_name=host,
        server_port=_free_port(host, 0) if port == 0 else port,
        prevent_thread_lock=True,
        quiet=True,
        share=False,
        inbrowser=browser,
        show_error=True,
        ssr_mode=False,
        mcp_server=False,
        enable_monitoring=False,
        run_history=False,
        footer_links=[],
        max_file_size="2mb",
        theme=make(),
        head=head(),
        app_kwargs={"middleware": _middleware(host), "docs_url": None, "redoc_url": None},
        **options,
    )
    return str(url)
