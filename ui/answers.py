"""The round records of finished answers, on disk beside the conversations: seen again after a restart, not kept in RAM.

A conversation's own file would hold them too, but it is written anew after every answer; with these records inside,
the hundredth answer would wait for those of the ninety-nine before it.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsd_local.decoding.records import Round
from nsd_local.decoding.records_io import round_from_dict, round_to_dict
from nsd_local.errors import NsdError

from .meters import Meters, Plain
from .tokens_view import Row, rows_of


@dataclass(frozen=True)
class Record:
    """How an answer came about. `pieces` spells the drafts that were rejected."""

    rounds: tuple[Round, ...]
    pieces: dict[int, str]
    ending: str  # "", "stopped", or why it was cut off
    budget: float | None

    def rows(self) -> list[Row]:
        return [row for round_ in self.rounds for row in rows_of(round_, lambda token: self.pieces.get(token, "…"))]

    def meters(self, plain: Plain | None = None) -> Meters:
        meters = Meters(self.budget, plain)
        for round_ in self.rounds:
            meters.add(round_)
        return meters

    def summary(self) -> str:
        """One line, in the words of the command line's footer."""
        m = self.meters()
        parts = [f"{m.tokens} tokens"]
        if m.average:
            parts.append(f"{m.average:.1f} tok/s")
        if m.drafted:
            ratio, nucleus = m.kinds["ratio"] / m.drafted, m.kinds["nucleus"] / m.drafted
            parts.append(f"kept {ratio + nucleus:.0%} of drafts ({ratio:.0%} ratio + {nucleus:.0%} nucleus)")
            parts.append(f"{m.tokens / len(m.ks):.1f} tokens per pass")
            parts.append(f"deviation {m.deviation:.2f}")
        return " · ".join([*parts, *([self.ending] if self.ending else [])])


class Answers:
    """One compressed JSON file per answer: `<folder>/<conversation>/<turn>.json.gz`.

    A record belongs to an answer only while the texts agree, so one left over from an answer that was replaced is
    never shown.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, conversation: str, turn: int, text: str, record: Record) -> None:
        document = {
            "text": text,
            "rounds": [round_to_dict(round_) for round_ in record.rounds],
            "pieces": list(record.pieces.items()),
            "ending": record.ending,
            "budget": record.budget,
        }
        path = self._path(conversation, turn)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.tmp")
        draft.write_bytes(gzip.compress(json.dumps(document, separators=(",", ":")).encode(), 5))
        draft.replace(path)

    def of(self, conversation: str, turn: int, text: str) -> Record | None:
        """The record of this answer; None where none is kept or it cannot be read."""
        try:
            document: Any = json.loads(gzip.decompress(self._path(conversation, turn).read_bytes()))
            if document["text"] != text:
                return None
            return Record(
                tuple(round_from_dict(value) for value in document["rounds"]),
                {int(token): str(piece) for token, piece in document["pieces"]},
                str(document["ending"]),
                document["budget"],
            )
        except (OSError, ValueError, EOFError, KeyError, TypeError, NsdError):
            return None

    def forget(self, conversation: str) -> None:
        """The conversation was deleted."""
        folder = self._folder / conversation
        if folder.is_dir():
            for path in folder.iterdir():
                path.unlink(missing_ok=True)
            folder.rmdir()

    def _path(self, conversation: str, turn: int) -> Path:
        return self._folder / conversation / f"{turn:05}.json.gz"


def pieces_of(rounds: Sequence[Round], piece: Callable[[int], str]) -> dict[int, str]:
    """The spelling of every draft that was rejected."""
    return {token: piece(token) for round_ in rounds for token in round_.drafted[round_.accepted :]}
