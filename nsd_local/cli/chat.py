"""`nsd-local chat`: a conversation in the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from nsd_local.api import Engine
from nsd_local.chat.archive import pack, unpack
from nsd_local.chat.conversation import Conversation
from nsd_local.chat.store import Store
from nsd_local.cli import chat_commands as commands
from nsd_local.cli.chat_input import Reader
from nsd_local.cli.chat_printer import ChatPrinter
from nsd_local.cli.footer import footer
from nsd_local.cli.interrupt import Interrupt
from nsd_local.cli.loading import load_engine
from nsd_local.cli.options import Options, with_options
from nsd_local.cli.status import clear, status
from nsd_local.decoding.events import Event
from nsd_local.errors import NsdError, SessionError


@with_options
def chat(
    options: Options,
    show_kinds: Annotated[bool, typer.Option("--show-kinds", help="Colour the tokens by how they came about.")] = False,
    ctx_shift: Annotated[
        bool, typer.Option("--ctx-shift", help="When the context is full, let the oldest turns go.")
    ] = False,
    session: Annotated[
        Path | None, typer.Option("--session", help="Go on from this file if it exists; write it at the end.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Say what was chosen automatically, and why.")] = False,
) -> None:
    """Talk in the terminal. /help lists the commands; Ctrl-C stops an answer, Ctrl-D ends."""
    conversation = Conversation(options.system or "", options.settings(), ctx_shift=ctx_shift)
    with load_engine(options, verbose=verbose) as engine, Reader() as reader:
        if session is not None:
            conversation = restored(engine, session, conversation)
        talk = Talk(engine, conversation, options, show_kinds=show_kinds)
        if reader.interactive:
            status('/help lists the commands. """ begins and ends a text of several lines. Ctrl-D ends.')
        try:
            talk.run(reader)
        finally:
            if session is not None:
                engine.save(session, {"conversation": pack(talk.conversation)})


def restored(engine: Engine, session: Path, conversation: Conversation) -> Conversation:
    """The conversation of a session file whose memories the engine takes over; `conversation` if there is no file.

    What was given on the command line (settings, a system prompt) goes before what the file holds.
    """
    if not session.expanduser().exists():
        return conversation
    note = engine.restore(session)
    if "conversation" not in note:
        raise SessionError(f"{session} holds no conversation", "another command has written it", "Give another file")
    kept = unpack(note["conversation"])
    kept.settings, kept.ctx_shift = conversation.settings, conversation.ctx_shift
    kept.system = conversation.system or kept.system
    status(f"going on with {kept.title!r}: {len(kept.turns)} turns")
    return kept


class PatientInterrupt(Interrupt):
    """Ctrl-C stops the answer however often it is pressed, never the program."""

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._asked = True


@dataclass
class Talk:
    """The state of a chat in the terminal."""

    engine: Engine
    conversation: Conversation
    options: Options
    show_kinds: bool = False
    store: Store = field(default_factory=Store)
    legend_told: bool = False  # what the colours of the kinds mean is said once

    def run(self, reader: Reader) -> None:
        """Reads and answers until the input ends."""
        while True:
            try:
                text = reader.read()
                if text is None:
                    return
                if text.strip():
                    self.handle(text)
            except KeyboardInterrupt:
                clear()
                status("(Ctrl-D or /quit ends the chat)")
            except commands.Quit:
                return
            except NsdError as error:  # the chat goes on
                clear()
                status(str(error))

    def handle(self, text: str) -> None:
        """One line of the user: a command, or something to say. `//` sends a text that begins with a slash."""
        if text.startswith("/") and not text.startswith("//"):
            commands.run(self, text)
        else:
            self.ask(text[1:] if text.startswith("//") else text)

    def ask(self, text: str) -> None:
        """Says something and prints the answer."""
        with PatientInterrupt() as interrupt:
            self._print(self.conversation.ask(self.engine, text, cancelled=interrupt.asked))

    def retry(self) -> None:
        """Prints another answer to the last message."""
        with PatientInterrupt() as interrupt:
            self._print(self.conversation.retry(self.engine, cancelled=interrupt.asked))

    def _print(self, events: Iterator[Event]) -> None:
        printer = ChatPrinter(self.conversation, show_kinds=self.show_kinds, legend=not self.legend_told)
        result = printer.run(events)
        self.legend_told |= self.show_kinds
        status(footer(result))
