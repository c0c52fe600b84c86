"""One exchange of a conversation: what the user said and what was answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nsd_local.decoding.records import Result, Round, Token
from nsd_local.decoding.settings import Settings
from nsd_local.decoding.summary import Summary


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with the token ids that the models produced and the records it came with.

    `text` is what was generated, reasoning included; `opened` is the reasoning tag that the prompt had
    opened (`nsd_local.chat.reasoning.split(text, opened)` tells reasoning and answer apart). `result` is
    None where the reader left before the end or the text was written by hand; `rounds` are known all the
    same.
    """

    text: str
    ids: tuple[int, ...] = ()  # without the end-of-generation token
    opened: str = ""
    model: str = ""  # description of the target, "" for text written by hand
    rounds: tuple[Round, ...] = ()
    result: Result | None = None
    settings: Settings | None = None

    @property
    def summary(self) -> Summary:
        """Counts, rates and times."""
        return Summary(self.rounds)

    @property
    def tokens(self) -> tuple[Token, ...]:
        return tuple(token for round_ in self.rounds for token in round_.tokens)


@dataclass(frozen=True, slots=True)
class Turn:
    """What the user said, and the answer; None where there is none yet."""

    user: str
    answer: Answer | None = None


def title_of(text: str, longest: int = 48) -> str:
    """A title for a conversation that begins with this text: its first words in one line."""
    line = " ".join(text.split())
    if len(line) <= longest:
        return line or "New conversation"
    words = line[:longest].rsplit(" ", 1)[0]
    return f"{words}…"


def ids_of(rounds: Sequence[Round], ends: frozenset[int]) -> tuple[int, ...]:
    """The token ids of an answer; `ends` are the end-of-generation tokens, which belong to no text."""
    return tuple(token.id for round_ in rounds for token in round_.tokens if token.id not in ends)
