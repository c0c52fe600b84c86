"""Reading a prompt into a context, in chunks between which the caller may stop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nsd_local.engine.context import Context

CHUNK = 256  # tokens: small enough that Ctrl-C acts within a second on a CPU, large enough for full speed


def shared_prefix(have: Sequence[int], want: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    for position, (a, b) in enumerate(zip(have, want, strict=False)):
        if a != b:
            return position
    return min(len(have), len(want))


def prefill(context: Context, tokens: Sequence[int], chunk: int = CHUNK) -> Iterator[int]:
    """Bring the memory to exactly `tokens`, reusing the longest common prefix; yields the size of each chunk evaluated.

    It may be abandoned between chunks: the memory then holds a prefix of `tokens`.
    """
    common = shared_prefix(context.tokens, tokens)
    context.rewind(common)
    for start in range(common, len(tokens), chunk):
        part = tokens[start : start + chunk]
        context.evaluate(part, rows=0)
        yield len(part)
