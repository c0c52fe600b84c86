"""What the user types: lines with history, and texts of several lines between triple quotes."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, TracebackType

from nsd_local.catalog.disk import why
from nsd_local.chat.store import conversations_folder
from nsd_local.cli.status import status

QUOTES = '"""'
PROMPT, MORE = "> ", ". "
REMEMBERED = 1_000  # lines of history


class Reader:
    """Reads from standard input. On a terminal it prompts and keeps a history across runs, where readline is there."""

    def __init__(self) -> None:
        self.interactive = sys.stdin.isatty()
        self._history = conversations_folder().parent / "chat_history"
        self._readline: ModuleType | None = None
        if self.interactive:
            try:
                self._readline = importlib.import_module("readline")  # makes input() edit lines; not on Windows
            except ImportError:
                return
            self._load_history(self._readline)

    def read(self) -> str | None:
        '''The next text: a line, or what stands between lines of """; None at the end of the input.'''
        line = self._line(PROMPT)
        if line is None or not line.lstrip().startswith(QUOTES):
            return line
        text = line.lstrip()[len(QUOTES) :]
        while not text.rstrip().endswith(QUOTES):
            more = self._line(MORE)
            if more is None:
                status(f"The input ended before the closing {QUOTES}: this text was not sent.")
                return None
            text += "\n" + more
        return text.rstrip()[: -len(QUOTES)].strip("\n")

    def close(self) -> None:
        """Keeps the history."""
        if self._readline is None:
            return
        try:
            self._history.parent.mkdir(parents=True, exist_ok=True)
            self._history.touch(mode=0o600)
            self._readline.set_history_length(REMEMBERED)
            self._readline.write_history_file(self._history)
        except OSError as error:
            status(f"The history cannot be kept in {self._history} ({why(error)}).")

    def _line(self, prompt: str) -> str | None:
        try:
            return input(prompt if self.interactive else "")
        except EOFError:
            if self.interactive:
                print()
            return None

    def _load_history(self, readline: ModuleType) -> None:
        try:
            readline.read_history_file(self._history)
        except FileNotFoundError:
            return
        except OSError as error:
            status(f"The history in {self._history} cannot be read ({why(error)}).")

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
