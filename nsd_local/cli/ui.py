"""`nsd-local ui`: the chat page, served to this machine's browser."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer

from nsd_local.catalog import Silent
from nsd_local.cli.options import Options, with_options
from nsd_local.cli.status import status
from nsd_local.verification.rule import Nucleus
from nsd_local.verification.rules import describe

# Shared flags that are dials of the page, under the names that the page remembers them by; and those about the rule.
RULE = ("rule", "theta", "strength", "cap", "deviation")
DIALS = {
    "block": "block",
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
    context: typer.Context,
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

    def said(flag: str) -> bool:
        source = context.get_parameter_source(flag)
        return source is not None and source.name == "COMMANDLINE"

    usual = options.settings()  # what makes no sense is refused here, not on the page
    with App(Choice(options.model, options.draft, options.loading(Silent())), usual=usual) as app:
        app.memory.change(**given(options, said))
        status(f"nsd-local is at {serve(app, host=host, port=port, password=password, browser=browser)}  (Ctrl-C ends)")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            status("ending")


def given(options: Options, said: Callable[[str], bool]) -> dict[str, Any]:
    """The dials whose flags were `said` on the command line; the others stay as the page remembers them."""
    dials = {dial: getattr(options, name) for name, dial in DIALS.items() if said(name)}
    return (_rule(options, said) if any(map(said, RULE)) else {}) | dials


def _rule(options: Options, said: Callable[[str], bool]) -> dict[str, Any]:
    """nucleus has dials for its parameters, of which --rule sets all; another rule is remembered with its own."""
    rule = options.settings().rule
    budget = {} if rule.takes_budget else {"budget": None}
    if rule.name != Nucleus.name:
        return {"rule": describe(rule), **budget}
    return {"rule": rule.name} | {name: value for name, value in asdict(rule).items() if said("rule") or said(name)}
