"""Many runs: every arm on the same prompts and seeds, taking turns, so that a drifting machine hits all alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from nsd_local.api import Engine
from nsd_local.decoding.decoder import never
from nsd_local.errors import Cancelled, NsdError
from nsd_local.measure.arms import Arm
from nsd_local.measure.journal import Journal
from nsd_local.measure.prompts import Prompt
from nsd_local.measure.runner import Row, Run, row, run
from nsd_local.measure.setup import setup

KEY = ("arm", "prompt", "seed", "repeat")
Extra = Callable[[Run], Row]  # more columns of a finished run
Say = Callable[[str], None]


def silent(text: str) -> None:
    """Says nothing."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """What is run: arms x prompts x seeds x repeats.

    It stops before the first turn (one prompt, all arms) that would start after the `deadline` of time.monotonic().
    """

    arms: Sequence[Arm]
    prompts: Sequence[Prompt]
    seeds: Sequence[int] = (0,)
    repeats: int = 1
    system: str | None = None
    deadline: float | None = None
    extras: Sequence[Extra] = field(default=())
    reuse: bool = False  # the target reads a prompt once for all arms: where reading is not what is measured

    def turns(self) -> Iterator[tuple[int, int, Prompt, list[Arm]]]:
        """(repeat, seed, prompt, arms in the order of this turn): who goes first changes every time."""
        number = 0
        for repeat in range(self.repeats):
            for seed in self.seeds:
                for prompt in self.prompts:
                    first = number % len(self.arms)
                    yield repeat, seed, prompt, [*self.arms[first:], *self.arms[:first]]
                    number += 1

    @property
    def size(self) -> int:
        """Number of runs."""
        return self.repeats * len(self.seeds) * len(self.prompts) * len(self.arms)

    @property
    def late(self) -> bool:
        """Is the deadline over?"""
        return self.deadline is not None and monotonic() > self.deadline

    def complete(self, journal: Journal | None) -> bool:
        """Does the journal hold every run?"""
        return all(
            _done(journal, arm, prompt, seed, repeat) for repeat, seed, prompt, arms in self.turns() for arm in arms
        )


def run_all(
    engine: Engine,
    campaign: Campaign,
    journal: Journal | None = None,
    *,
    say: Say = silent,
    cancelled: Callable[[], bool] = never,
) -> Iterator[Row]:
    """The rows of all runs as they finish, after those that the journal holds already. Raises Cancelled."""
    where, done = setup(engine), 0
    if journal is not None:
        wanted = {
            (arm.name, prompt.id, seed, repeat) for repeat, seed, prompt, arms in campaign.turns() for arm in arms
        }
        kept = [record for record in journal.records if journal.key(record) in wanted]
        done = len(kept)
        yield from kept
        if kept:
            say(f"{done} of {campaign.size} runs are there already")
    for repeat, seed, prompt, arms in campaign.turns():
        due = [arm for arm in arms if not _done(journal, arm, prompt, seed, repeat)]
        if due and campaign.late:
            say(f"stopped at the time limit after {done} of {campaign.size} runs")
            return
        for arm in due:
            values = one(engine, arm, prompt, seed, repeat, campaign, where, journal, cancelled)
            done += 1
            say(told(values, done, campaign.size))
            yield values


def one(
    engine: Engine,
    arm: Arm,
    prompt: Prompt,
    seed: int,
    repeat: int,
    campaign: Campaign,
    where: Row,
    journal: Journal | None,
    cancelled: Callable[[], bool],
) -> Row:
    """One run, written down; an extra column that fails is its error."""
    finished = run(engine, arm, prompt, seed, repeat, system=campaign.system, reuse=campaign.reuse, cancelled=cancelled)
    values = row(finished, where)
    if finished.result is not None:
        for extra in campaign.extras:
            try:
                values |= extra(finished)
            except Cancelled:
                raise
            except NsdError as error:
                values["error"] = str(error)
    if journal is not None:
        rounds = finished.result.rounds if finished.result is not None else None
        journal.append(values, rounds)
    return values


def told(values: Row, done: int, size: int) -> str:
    """A run in one line."""
    head = f"[{done}/{size}] {values['prompt']}  {values['arm']}"
    if values.get("error"):
        return f"{head}: failed: {values['error']}"
    speed = values.get("predicted_per_second")
    idle = values["draft_tokens"] != 0 and not values["active"]  # it was to draft, and did not
    return (
        f"{head}: {values['predicted_n']} tokens"
        + (f", {speed:.1f} tok/s" if speed else "")
        + (f" ({values['reason']})" if idle else "")
    )


def _done(journal: Journal | None, arm: Arm, prompt: Prompt, seed: int, repeat: int) -> bool:
    key: dict[str, Any] = {"arm": arm.name, "prompt": prompt.id, "seed": seed, "repeat": repeat}
    return journal is not None and journal.has(key)
