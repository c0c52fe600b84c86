"""Where the text so far has said the same before."""

from __future__ import annotations

from collections.abc import Sequence

from nsd_local.drafting.match import Match
from nsd_local.engine.prefill import shared_prefix


class PromptIndex:
    """Longest suffix match within one text, kept up token by token.

    Every place is linked to the previous place with the same last `SHORTEST` tokens, so that the candidates
    come most recent first. Adding a token costs the same however long the text is, and so does a search: it
    looks at the `CANDIDATES` most recent places and compares at most `LONGEST` tokens at each.
    """

    SHORTEST = 2
    LONGEST = 64
    CANDIDATES = 24

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._earlier: list[int] = []  # [i]: the previous place whose last tokens are those ending at i, or -1
        self._latest: dict[tuple[int, ...], int] = {}

    def begin(self, tokens: Sequence[int], *, fresh: bool = False) -> None:
        common = shared_prefix(self._tokens, tokens)
        if common < len(self._tokens) // 2:  # quicker to start again than to undo
            self._tokens, self._earlier, self._latest = [], [], {}
            common = 0
        while len(self._tokens) > common:
            self._pop()
        self.extend(tokens[common:])

    def extend(self, tokens: Sequence[int]) -> None:
        for token in tokens:
            self._tokens.append(int(token))
            here = len(self._tokens)
            if here < self.SHORTEST:
                self._earlier.append(-1)
                continue
            key = tuple(self._tokens[here - self.SHORTEST :])
            self._earlier.append(self._latest.get(key, -1))
            self._latest[key] = here

    def match(self) -> Match | None:
        best_length, best = 0, -1
        candidate = self._earlier[-1] if self._earlier else -1
        for _ in range(self.CANDIDATES):
            if candidate < 0 or best_length == self.LONGEST:
                break
            length = self._agreement(candidate)
            if length > best_length:
                best_length, best = length, candidate
            candidate = self._earlier[candidate - 1]
        if best < 0:
            return None
        return Match(best_length, self._tokens, best, end=len(self._tokens), same=True)

    def forget(self) -> None:
        self._tokens, self._earlier, self._latest = [], [], {}

    def _agreement(self, position: int) -> int:
        """How many tokens before `position` equal the last tokens of the text."""
        tokens, end, length = self._tokens, len(self._tokens), self.SHORTEST
        while length < min(self.LONGEST, position) and tokens[position - 1 - length] == tokens[end - 1 - length]:
            length += 1
        return length

    def _pop(self) -> None:
        """Forget the last token."""
        here = len(self._tokens)
        if here >= self.SHORTEST:
            key = tuple(self._tokens[here - self.SHORTEST :])
            if self._earlier[-1] < 0:
                del self._latest[key]
            else:
                self._latest[key] = self._earlier[-1]
        self._tokens.pop()
        self._earlier.pop()
