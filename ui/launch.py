"""Serving the app: this machine only, unless there is a password."""

from __future__ import annotations

import hmac
from typing import Any

from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nsd_local.errors import UsageError

from .app import App
from .theme import head, make

LOCAL = ("127.0.0.1", "localhost", "::1")
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


def serve(
    app: App, *, host: str = "127.0.0.1", port: int | None = None, password: str | None = None, browser: bool = False
) -> str:
    """Starts serving in threads of its own and returns the address. Raises UsageError without a needed password."""
    check_address(host, password)

    def knows(_: str, given: str) -> bool:
        return hmac.compare_digest(given.encode(), (password or "").encode())

    options: dict[str, Any] = {}
    if password:
        options = {
            "auth": knows,
            "auth_message": "Any name will do; the password is the one nsd-local ui was started with.",
        }
    app.blocks.queue(default_concurrency_limit=None)
    _, url, _ = app.blocks.launch(
        server_name=host,
        server_port=port,
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
        app_kwargs={"middleware": [Middleware(Headers)], "docs_url": None, "redoc_url": None},
        **options,
    )
    return str(url)
