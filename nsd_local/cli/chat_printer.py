"""An answer in the terminal, its reasoning set apart."""

from __future__ import annotations

from rich.text import Text

from nsd_local.chat.conversation import Conversation
from nsd_local.chat.reasoning import Piece, ReasoningSplitter
from nsd_local.cli.generate import Printer
from nsd_local.decoding.records import Result


class ChatPrinter(Printer):
    """Prints an answer as `generate` does; on a terminal, reasoning is dim and its tags are left out.

    With the kinds of tokens shown, the text stays as it was generated. In a pipe it does too.
    """

    def __init__(self, conversation: Conversation, *, show_kinds: bool, legend: bool = True) -> None:
        super().__init__(stream=True, show_kinds=show_kinds)
        self._legend = legend
        self._conversation = conversation
        self._splits = self.colours is None and self.out.is_terminal
        self._splitter: ReasoningSplitter | None = None
        self._in_reasoning = False

    def _print(self, text: str | Text) -> None:
        if not self._splits or isinstance(text, Text):
            super()._print(text)
            return
        if self._splitter is None:  # the prompt is known once the first event has come
            self._splitter = ReasoningSplitter(self._conversation.opened)
        for piece in self._splitter.feed(text):
            self._print_piece(piece)

    def _end(self, result: Result) -> Result:
        for piece in self._splitter.flush() if self._splitter else []:
            self._print_piece(piece)
        self._splits = False
        if not self._legend:
            self.colours = None  # all text is painted: only the legend is left to print
        return super()._end(result)

    def _print_piece(self, piece: Piece) -> None:
        if piece.part == "reasoning":
            super()._print(Text(piece.text, style="dim"))
        else:
            super()._print(("\n\n" if self._in_reasoning else "") + piece.text)
        self._in_reasoning = piece.part == "reasoning"
