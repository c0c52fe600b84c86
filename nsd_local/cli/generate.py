"""`nsd-local generate`: one prompt, one answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from nsd_local.cli.footer import footer
from nsd_local.cli.interrupt import Interrupt
from nsd_local.cli.loading import load_engine
from nsd_local.cli.options import Options, with_options
from nsd_local.cli.palette import rich_style
from nsd_local.cli.status import progress, status
from nsd_local.cli.visible import visible
from nsd_local.decoding.document import document
from nsd_local.decoding.events import Event, Finished, Notice, Prefill, Step
from nsd_local.decoding.records import Result, Token
from nsd_local.errors import UsageError
from nsd_local.verification.verdict import KINDS, Kind


@with_options
def generate(
    options: Options,
    prompt: Annotated[str | None, typer.Argument(help="The prompt; - or a pipe reads it from standard input.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Continue the text as it is, without a chat template.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    tokens: Annotated[bool, typer.Option("--tokens", help="With --json: list every token.")] = False,
    stream: Annotated[bool, typer.Option("--stream/--no-stream", help="Print the answer as it comes.")] = True,
    show_kinds: Annotated[bool, typer.Option("--show-kinds", help="Colour the tokens by how they came about.")] = False,
    session: Annotated[Path | None, typer.Option("--session", help="Load and save the memories in this file.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Say what was chosen automatically, and why.")] = False,
) -> None:
    """Answer one prompt."""
    text = read_prompt(prompt)
    settings = options.settings()
    if raw and options.system:
        raise UsageError(
            "--system has no place in --raw", "without a chat template there are no roles", "Drop one of them"
        )
    with load_engine(options, verbose=verbose) as engine, Interrupt() as interrupt:
        if session is not None and session.expanduser().exists():
            engine.restore(session)
        events = engine.stream(text, settings, raw=raw, system=options.system, cancelled=interrupt.asked)
        show = not as_json
        result = Printer(stream=stream and show, show_kinds=show_kinds and show).run(events)
        if session is not None:
            engine.save(session)
        if not stream and not as_json:
            print(visible(result.text) if sys.stdout.isatty() else result.text)
        if as_json:
            print(json.dumps(document(result, settings, engine.describe(), tokens=tokens), ensure_ascii=False))
        status(footer(result))
    if result.finish_reason == "cancelled":
        raise SystemExit(130)


def read_prompt(argument: str | None) -> str:
    """The prompt of the command line, or what is piped in."""
    if argument not in (None, "-"):
        text = str(argument)
    elif argument is None and sys.stdin.isatty():
        raise UsageError(
            "No prompt was given", "", 'Write it behind the command: nsd-local generate "…", or pipe it in'
        )
    else:
        text = sys.stdin.read()
    if not text.strip():
        raise UsageError("The prompt is empty", "there is nothing to answer", "Write some text behind the command")
    return text


class Printer:
    """Prints the events of one answer: text to stdout, everything else to stderr."""

    def __init__(self, *, stream: bool, show_kinds: bool) -> None:
        self.stream = stream
        self.colours = KindColours() if show_kinds else None
        self.out = Console(highlight=False, soft_wrap=True)
        self._begun = False  # there is text, so notices wait for its end
        self._waiting: list[str] = []

    def run(self, events: Iterator[Event]) -> Result:
        """Prints until the answer ends; returns its result."""
        for event in events:
            match event:
                case Notice(text) if self._begun:
                    self._waiting.append(text)
                case Notice(text):
                    status(text)
                case Prefill(done, total):
                    progress("reading the prompt", done, total)
                case Step(round_, text):
                    self._show(text, round_.tokens)
                case Finished(result, text):
                    self._show(text)
                    return self._end(result)
        raise RuntimeError("the stream of events ended without Finished")

    def _show(self, text: str, tokens: Sequence[Token] = ()) -> None:
        self._begun = self._begun or bool(text)
        if self.out.is_terminal:
            text = visible(text)
        self._print(self.colours.paint(tokens, text) if self.colours else text)

    def _print(self, text: str | Text) -> None:
        if not self.stream or not text:
            return
        if isinstance(text, str):
            sys.stdout.write(text)
            sys.stdout.flush()
        else:
            self.out.print(text, end="")

    def _end(self, result: Result) -> Result:
        if self.stream:
            self._print("" if result.text.endswith("\n") else "\n")
            if self.colours:
                Console(stderr=True, highlight=False).print(legend())
        for notice in self._waiting:
            status(notice)
        return result


class KindColours:
    """Colours text as it becomes certain by the kinds of the tokens that it came from."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Kind, int]] = []  # kind and number of characters not printed yet

    def paint(self, tokens: Sequence[Token], text: str) -> Text:
        self._waiting += [(token.kind, len(token.text)) for token in tokens]
        painted = Text()
        while text:
            kind, size = self._waiting.pop(0) if self._waiting else ("plain", len(text))
            painted.append(text[:size], style=rich_style(kind))
            if len(text) < size:
                self._waiting.insert(0, (kind, size - len(text)))
            text = text[size:]
        return painted


def legend() -> Text:
    """The kinds and their colours in one line."""
    words = Text()
    for kind in KINDS:
        words.append(kind, style=rich_style(kind)).append("  ")
    return words
