"""`nsd-local ui`: the chat page, served to this machine's browser."""

from __future__ import annotations

import threading
from dataclasses import fields
from typing import Annotated, Any

import typer

from nsd_local.catalog import Silent
from nsd_local.cli.options import Options, with_options
from nsd_local.cli.status import status

# Shared flags that are dials of the page, under the names that the page remembers them by.
DIALS = {
    "rule": "rule",
    "theta": "theta",
    "strength": "strength",
    "cap": "cap",
    "budget": "budget",
    "exact_first": "exact_first",
    "draft_tokens": "k",
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "seed": "seed",
    "max_tokens": "max_tokens",
    "system": "system",
}


@with_options
def ui(
    options: Options,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; others than this machine need a password.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option("--port", help="Port to listen on.", show_default="7860 or higher; 0 takes any")
    ] = None,
    password: Annotated[
        str | None, typer.Option("--password", envvar="NSD_LOCAL_PASSWORD", help="Asked for before the page is shown.")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
) -> None:
    """Talk in a local web page that shows which tokens were kept, why, and how fast. Ctrl-C ends."""
    from nsd_local.ui.launch import check_address, check_port  # Gradio takes a second to import

    check_address(host, password)
    check_port(host, port)
    from nsd_local.ui.app import App
    from nsd_local.ui.choice import Choice
    from nsd_local.ui.launch import serve

    options.settings()  # what makes no sense is refused here, not on the page
    with App(Choice(options.model, options.draft, options.loading(Silent()))) as app:
        app.memory.change(**given(options))
        status(f"nsd-local is at {serve(app, host=host, port=port, password=password, browser=browser)}  (Ctrl-C ends)")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            status("ending")


def given(options: Options) -> dict[str, Any]:
    """The dials that were set on the command line; the others stay as the page remembers them."""
    usual = {field.name: field.default for field in fields(Options)}
    return {dial: getattr(options, name) for name, dial in DIALS.items() if getattr(options, name) != usual[name]}
