"""Reading a prompt into a context, in chunks between which the caller may stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from nsd_local.engine.context import Context

# Tokens. Progress shows and a stop acts after each. The size is fixed: sizes that follow the machine's speed would
# change the last bits of the logits, and with them what a seed gives.
CHUNK: Final = 256


def shared_prefix(have: Sequence[int], want: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    for position, (a, b) in enumerate(zip(have, want, strict=False)):
        if a != b:
            return position
    return min(len(have), len(want))


def prefill(
    context: Context, tokens: Sequence[int], chunk: int = CHUNK, cancelled: Callable[[], bool] | None = None
) -> Iterator[int]:
    """Bring the memory to exactly `tokens`, reusing the longest common prefix; yields the size of each chunk evaluated.

    It may be abandoned between chunks: the memory then holds a prefix of `tokens`. `cancelled` is also asked within a
    chunk, on CPUs; Cancelled is raised where it says so.
    """
    context.settle()
    common = shared_prefix(context.tokens, tokens)
    context.retreat(common)
    context.rewound.evaluated += common - len(context.tokens)
    for start in range(len(context.tokens), len(tokens), chunk):
        part = tokens[start : start + chunk]
        context.evaluate_abortable(part, cancelled)
        yield len(part)
    context.anchor()
