"""How likely the target itself finds an answer that some rule let through."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nsd_local.api import Engine
from nsd_local.engine.context import Context
from nsd_local.measure.runner import Row, Run

CHUNK = 16  # rows of logits at once


def log_likelihood(target: Context, prompt: Sequence[int], answer: Sequence[int]) -> float:
    """Sum of the natural logarithms of the target's probabilities of `answer` (token ids) after `prompt`, at
    temperature 1 and without truncation. The memory holds the text afterwards."""
    text = [*prompt, *answer]
    start = len(prompt) - 1
    target.prefill(text[:start])
    total = 0.0
    for at in range(start, len(text) - 1, CHUNK):
        tokens = text[at : min(at + CHUNK, len(text) - 1)]
        rows = target.evaluate(tokens, rows=len(tokens)).astype(np.float64)  # (n, V)
        following = text[at + 1 : at + 1 + len(tokens)]
        top = rows.max(axis=1)
        normaliser = top + np.log(np.exp(rows - top[:, None]).sum(axis=1))
        total += float((rows[np.arange(len(tokens)), following] - normaliser).sum())
    return total


class TargetLikelihood:
    """Adds `target_logprob`, nats per token, to the rows of a campaign."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __call__(self, run: Run) -> Row:
        rounds = run.result.rounds if run.result is not None else ()
        answer = [token.id for round_ in rounds for token in round_.tokens]
        if not answer:
            return {"target_logprob": None}
        target = self._engine.decoder.target
        return {"target_logprob": log_likelihood(target, run.tokens, answer) / len(answer)}
