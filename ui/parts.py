"""Our own pieces of the page: an empty frame that the page's script fills with text nodes, never with HTML."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import gradio as gr

Served = Callable[[dict[str, Any]], Awaitable[Any]]


def part(
    name: str, *, value: Any = None, serves: Sequence[Served] = (), elem_id: str | None = None, **props: Any
) -> gr.HTML:
    """The part that `nsd.mounts[name]` in static/*.js makes. `props` and the functions it may call reach it there."""
    return gr.HTML(
        value,
        html_template='<div class="n-mount"></div>',
        # The names of events must stand here as text: Gradio looks for them to make listeners.
        js_on_load=f"/* 'act' */ nsd.mount('{name}', element, server, props, watch, trigger)",
        apply_default_css=False,
        server_functions=[_function(serve) for serve in serves],
        elem_id=elem_id or f"n-{name}",
        elem_classes="n-part",
        **props,
    )


def _function(serve: Served) -> Callable[[dict[str, Any]], Awaitable[Any]]:
    """Gradio marks what it serves by an attribute, which a bound method cannot have."""

    async def call(ask: dict[str, Any]) -> Any:
        return await serve(ask)

    call.__name__ = serve.__name__
    return call
