"""How far apart target and draft are along a given text: what any rule and any draft length would meet there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsd_local.engine.context import Context
from nsd_local.measure.trace import Trace
from nsd_local.sampling.law import Law
from nsd_local.sampling.shape import Shape
from nsd_local.verification.position import Position

THETAS = (0.0, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99, 1.0)
CHUNK = 16  # rows of logits of each model at once


def profile(
    target: Context,
    draft: Context,
    prompt: Sequence[int],
    answer: Sequence[int],
    law: Law,
    *,
    thetas: Sequence[float] = THETAS,
    about: dict[str, Any] | None = None,
) -> Trace:
    """Evaluates both models over `prompt` and `answer` (token ids) and compares their laws at every answer position.

    Costs a prefill of each and about a millisecond per position. Both memories hold the text afterwards.
    """
    text = [*prompt, *answer]
    start = len(prompt) - 1
    for memory in (target, draft):
        memory.prefill(text[:start])
    here, q = Position(target.n_vocab), Shape(target.n_vocab)
    padded = np.full((CHUNK, target.n_vocab), -np.inf, dtype=np.float32)  # (CHUNK, V) the draft's rows
    shared = min(target.n_vocab, draft.n_vocab)
    columns: list[list[float]] = []
    for at in range(start, len(text) - 1, CHUNK):
        tokens = text[at : min(at + CHUNK, len(text) - 1)]
        p_rows = target.evaluate(tokens, rows=len(tokens))
        padded[: len(tokens), :shared] = draft.evaluate(tokens, rows=len(tokens))[:, :shared]
        columns += [_compare(here, q, p_row, q_row, law, thetas) for p_row, q_row in zip(p_rows, padded, strict=False)]
    divergence, match, entropy, *excess = zip(*columns, strict=True)
    return Trace(len(prompt), divergence, dict(zip(thetas, excess, strict=True)), match, entropy, about or {})


def _compare(
    here: Position,
    q: Shape,
    p_row: NDArray[np.float32],
    q_row: NDArray[np.float32],
    law: Law,
    thetas: Sequence[float],
) -> list[float]:
    """Divergence, p of q's likeliest token, entropy of q, and E_S at each theta."""
    q.take(q_row, law, entropy=True)
    here.take(p_row, q_row, q.top, law)
    excess = []
    for theta in thetas:
        here.measure(theta)
        excess.append(here.excess)
    return [here.divergence, here.p_x, q.entropy, *excess]
