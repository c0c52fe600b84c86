"""What both laws were like where drafted tokens were judged: more than the loop can afford to write down."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsd_local.api import Engine
from nsd_local.decoding.decoder import never
from nsd_local.decoding.records import Round
from nsd_local.engine.context import Context
from nsd_local.errors import Cancelled, UsageError
from nsd_local.measure.campaign import Campaign, Say, silent
from nsd_local.measure.journal import Journal
from nsd_local.measure.runner import Row, Run
from nsd_local.measure.setup import draft_context
from nsd_local.sampling.law import Law
from nsd_local.sampling.shape import Shape

COLUMNS = ("position", "outcome", "p", "q", "rank", "ahead", "entropy_p", "entropy_q")
Columns = dict[str, list[Any]]


def dissect(target: Context, draft: Context, prompt: Sequence[int], rounds: Sequence[Round], law: Law) -> Columns:
    """Evaluates both models again on a recorded answer and gives, for each processed draft position:

    its place in the round (`position`, from 0), the `outcome` (ratio, nucleus or rejected), `p` and `q` of the
    drafted token, its 1-based `rank` in the target's row, the mass of p ranked before it (`ahead`: it lies in
    S_theta(p) where ahead < theta; 1 where p is 0), and the entropies of both laws in nats.

    Costs about as much as the answer itself. Both memories hold the text afterwards.
    """
    shapes = Shape(target.n_vocab), Shape(target.n_vocab)
    columns: Columns = {name: [] for name in COLUMNS}
    text = list(prompt)
    for round_ in rounds:
        n = len(round_.divergence)
        if n:
            fed = [text[-1], *round_.drafted[: n - 1]]
            p_rows, q_rows = _rows(target, text, fed, target.n_vocab), _rows(draft, text, fed, target.n_vocab)
            for i, (p_row, q_row) in enumerate(zip(p_rows, q_rows, strict=True)):
                values = _position(shapes, p_row, q_row, round_.drafted[i], law)
                for name, value in zip(COLUMNS, (i, _outcome(round_, i), *values), strict=True):
                    columns[name].append(value)
        text += [token.id for token in round_.tokens]
    return columns


def _rows(context: Context, text: Sequence[int], fed: Sequence[int], n_vocab: int) -> NDArray[np.float32]:
    """(n, V) logits after each token of `fed`, the text but its last token being in memory."""
    context.prefill(text[:-1])
    rows = context.evaluate(list(fed), rows=len(fed))
    padded = np.full((len(fed), n_vocab), -np.inf, dtype=np.float32)
    shared = min(n_vocab, rows.shape[1])
    padded[:, :shared] = rows[:, :shared]
    return padded


def _position(
    shapes: tuple[Shape, Shape], p_row: NDArray[np.float32], q_row: NDArray[np.float32], token: int, law: Law
) -> tuple[float, float, int, float, float, float]:
    p, q = shapes
    p.take(p_row, law, entropy=True)
    q.take(q_row, law, entropy=True)
    chance = p.probability(token)
    ahead = p.mass_ahead(token) if chance > 0.0 else 1.0
    return chance, q.probability(token), p.rank(token), ahead, p.entropy, q.entropy


def _outcome(round_: Round, i: int) -> str:
    if i >= round_.accepted:
        return "rejected"
    return round_.tokens[i].kind if i < len(round_.tokens) else "ratio"


class Anatomist:
    """Dissects the runs of a campaign, each once, and writes the positions into a journal of their own."""

    def __init__(self, engine: Engine, journal: Journal) -> None:
        draft = draft_context(engine)
        if draft is None:
            raise UsageError(
                "There are no positions to look at",
                "no draft model is loaded",
                "Name one with --draft, or leave it out",
            )
        self._engine, self._draft, self._journal = engine, draft, journal

    def __call__(self, run: Run) -> Row:
        if run.result is not None:
            self._record(run, run.result.rounds)
        return {}

    def catch_up(
        self, campaign: Campaign, runs: Journal, *, say: Say = silent, cancelled: Callable[[], bool] = never
    ) -> None:
        """Dissects what `runs` holds of a campaign and has no positions yet, from the recorded rounds.

        Raises Cancelled.
        """
        asked = {(arm.name, prompt.id): (arm, prompt) for *_, prompt, arms in campaign.turns() for arm in arms}
        for one in runs.recordings():
            name = one.about["arm"], one.about["prompt"]
            if name not in asked or self._journal.has(one.about):
                continue
            if cancelled():
                raise Cancelled("The measurement was stopped")
            if campaign.late:
                say("stopped at the time limit before every recorded run was looked at again")
                return
            arm, prompt = asked[name]
            tokens = tuple(self._engine.tokens(prompt.text, system=campaign.system))
            if self._record(Run(arm, prompt, one.about["seed"], one.about["repeat"], "", tokens), one.rounds):
                say(f"looked again at {prompt.id}  {arm.name}")

    def _record(self, run: Run, rounds: Sequence[Round]) -> bool:
        """Writes down the positions of a run; False where it has none, or has them already."""
        settings = run.arm.settings
        plain = settings.penalties.active or bool(settings.logit_bias)
        modelled = bool(rounds) and all(round_.source in ("", "model") for round_ in rounds)
        if not run.arm.drafts or settings.rule.greedy_draft or plain or not modelled or self._journal.has(run.key):
            return False
        columns = dissect(self._engine.decoder.target, self._draft, run.tokens, rounds, settings.law)
        if columns["p"]:
            self._journal.append({**run.key, "prompt_kind": run.prompt.kind, **_rounded(columns)})
        return bool(columns["p"])


def _rounded(columns: Mapping[str, list[Any]]) -> Columns:
    """Six significant digits are enough for figures, and keep files small."""
    return {
        name: [
            float(f"{value:.6g}") if isinstance(value, float) and math.isfinite(value) else value for value in values
        ]
        for name, values in columns.items()
    }
