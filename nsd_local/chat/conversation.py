"""A conversation: its turns, and how the next answer comes to be."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Protocol

from nsd_local import checks
from nsd_local.chat.message import Message
from nsd_local.chat.reasoning import opened_by
from nsd_local.chat.template import Prompt, Template
from nsd_local.chat.transcript import Transcript
from nsd_local.chat.turn import Answer, Turn, ids_of, title_of
from nsd_local.chat.window import Window
from nsd_local.decoding.decoder import Decoder, never
from nsd_local.decoding.events import Event, Finished, Notice, Step
from nsd_local.decoding.records import Result, Round
from nsd_local.decoding.settings import Settings
from nsd_local.engine.model import Model
from nsd_local.errors import UsageError


class ChatEngine(Protocol):
    """What a conversation needs of a loaded pair; `nsd_local.load` returns one."""

    template: Template

    @property
    def target(self) -> Model: ...

    @property
    def decoder(self) -> Decoder: ...

    def stream(
        self, prompt: Sequence[int], settings: Settings | None = None, *, cancelled: Callable[[], bool] = ...
    ) -> Iterator[Event]: ...


class Conversation:
    """Turns of user and model, a system prompt, and the settings of the next answer.

    It belongs to no engine: every answer names the one to use, and as long as that stays the same, each
    prompt is an exact continuation of what the memories hold (see `Transcript`). One answer at a time, from
    one thread. With `ctx_shift` the oldest turns leave the prompt (not the conversation) when the context is
    full, and a notice says so; without it that is an error.
    """

    def __init__(
        self, system: str = "", settings: Settings | None = None, *, ctx_shift: bool = False, title: str = ""
    ) -> None:
        self.id = uuid.uuid4().hex
        self.created = self.updated = now()
        self.system = system
        self.settings = settings or Settings()
        self.ctx_shift = ctx_shift
        self.turns: list[Turn] = []
        self.dropped = 0  # so many of the oldest turns are no longer part of the prompt
        self._title = title
        self.opened = ""  # the reasoning tag that the prompt of the last answer left open
        self._transcript: Transcript | None = None

    @property
    def title(self) -> str:
        """What it was named, or else its first words."""
        return self._title or title_of(self.turns[0].user if self.turns else "")

    @title.setter
    def title(self, title: str) -> None:
        checks.text("a title", title)
        self._title = " ".join(title.split())

    @property
    def system(self) -> str:
        """The system prompt; "" for none."""
        return self._system

    @system.setter
    def system(self, system: str) -> None:
        checks.text("a system prompt", system)
        self._system = system

    @property
    def named(self) -> bool:
        """Was it given a title?"""
        return bool(self._title)

    @property
    def messages(self) -> list[Message]:
        """All that was said, the system prompt first."""
        return self._messages(0)

    def ask(self, engine: ChatEngine, text: str, *, cancelled: Callable[[], bool] = never) -> Iterator[Event]:
        """Says something to the model and streams its answer.

        Stopping (through `cancelled`, or by closing the iterator) keeps what was said so far. If it fails,
        the conversation is as it was before. Raises ContextFullError, and whatever the engine raises.
        """
        checks.text("a message", text)
        if not text.strip():
            raise UsageError("The message is empty", "there is nothing to answer", "Write something first")
        return self._answer(engine, [*self.turns, Turn(text)], cancelled)

    def retry(self, engine: ChatEngine, *, cancelled: Callable[[], bool] = never) -> Iterator[Event]:
        """Answers the last message again, in place of the answer it has; otherwise as `ask`."""
        if not self.turns:
            raise UsageError("There is nothing to answer again", "", "Say something first")
        return self._answer(engine, [*self.turns[:-1], Turn(self.turns[-1].user)], cancelled)

    def edit(self, index: int, text: str) -> None:
        """Changes what the user said in turn `index`; its answer and all later turns go. `retry` answers."""
        self._turn(index)
        checks.text("a message", text)
        if not text.strip():
            raise UsageError("The message is empty", "", "Write something, or undo the turn")
        self._set([*self.turns[:index], Turn(text)])

    def edit_answer(self, index: int, text: str) -> None:
        """Puts other words into the model's mouth in turn `index`. All later turns go."""
        turn = self._turn(index)
        checks.text("an answer", text)
        self._set([*self.turns[:index], Turn(turn.user, Answer(text))])

    def undo(self) -> str:
        """Takes the last turn back; returns what the user had said."""
        if not self.turns:
            raise UsageError("There is nothing to undo", "the conversation is empty")
        user = self.turns[-1].user
        self._set(self.turns[:-1])
        return user

    def reset(self) -> None:
        """Forgets all turns; the system prompt and the settings stay."""
        self._set([])
        self.dropped = 0

    def _turn(self, index: int) -> Turn:
        if not 0 <= index < len(self.turns):
            raise UsageError(f"There is no turn {index + 1}", f"the conversation has {len(self.turns)}")
        return self.turns[index]

    def _set(self, turns: list[Turn]) -> None:
        self.turns = turns
        self.dropped = min(self.dropped, max(0, len(turns) - 1))
        self.updated = now()

    def _answer(self, engine: ChatEngine, turns: list[Turn], cancelled: Callable[[], bool]) -> Iterator[Event]:
        """Answers the last of `turns`, which are the conversation's from here on, unless it fails."""
        before = (self.turns, self.dropped, self.updated)
        self._set(turns)
        try:
            prompt, notices = self._prompt(engine)
            for notice in notices:
                yield Notice(notice)
            yield from self._reply(engine, prompt, before[0], cancelled)
        except GeneratorExit:
            raise
        except BaseException:
            self.turns, self.dropped, self.updated = before
            raise

    def _reply(
        self, engine: ChatEngine, prompt: Prompt, before: list[Turn], cancelled: Callable[[], bool]
    ) -> Iterator[Event]:
        rounds: list[Round] = []
        kept = False
        events = engine.stream(prompt.tokens, self._settings(engine), cancelled=cancelled)
        try:
            for event in events:
                if isinstance(event, Step):
                    rounds.append(event.round)
                elif isinstance(event, Finished):
                    self._keep(engine, prompt, rounds, before, event.result)
                    kept = True
                yield event
        except GeneratorExit:  # the reader left
            if not kept:
                self._keep(engine, prompt, rounds, before, None)
            raise
        finally:
            if isinstance(events, Generator):
                events.close()  # gives the engine back at once

    def _keep(
        self,
        engine: ChatEngine,
        prompt: Prompt,
        rounds: list[Round],
        before: list[Turn],
        result: Result | None,
    ) -> None:
        """Adds the answer, whole or not, to its turn. A retry that said nothing leaves the old answer."""
        text = result.text if result else "".join(token.text for round_ in rounds for token in round_.tokens)
        ids = ids_of(rounds, engine.target.eog)
        if not ids and (result is None or result.finish_reason == "cancelled"):
            self.turns = before if len(before) == len(self.turns) else self.turns
            return
        if self._transcript is not None:
            self._transcript.record(prompt, text, ids)
        answer = Answer(
            text,
            ids,
            prompt.opened,
            engine.target.description,
            result.rounds if result else tuple(rounds),
            result,
            self.settings,
        )
        self._set([*self.turns[:-1], replace(self.turns[-1], answer=answer)])

    def _attach(self, engine: ChatEngine) -> bool:
        """Makes the transcript one of this engine; True if it was none before.

        Answers that were loaded from disk bring the ids they were generated as, so that a memory which still holds
        them, or a restored one, is continued. Ids of another vocabulary spell another text and are not used.
        """
        if self._transcript is not None and self._transcript.fence is engine.template.fence:
            return False
        self._transcript = Transcript(engine.target, engine.template.fence)
        self.dropped = 0
        for i, turn in enumerate(self.turns):
            if turn.answer is not None and turn.answer.ids:
                messages = [*self._messages(0, i), Message("user", turn.user)]
                self._transcript.record(self._render(engine, messages), turn.answer.text, turn.answer.ids)
        return True

    def _prompt(self, engine: ChatEngine) -> tuple[Prompt, list[str]]:
        """The prompt for the next answer, and what the user should know about it."""
        fresh = self._attach(engine)
        prompt = self._render(engine, self._messages(self.dropped))
        window = Window(engine.decoder.target.n_ctx, self.settings.max_tokens)
        before = self.dropped
        if self.ctx_shift and not window.has_room(len(prompt.tokens)):
            while self.dropped < len(self.turns) - 1 and not window.is_cleared(len(prompt.tokens)):
                self.dropped += 1
                prompt = self._render(engine, self._messages(self.dropped))
        if not window.fits(len(prompt.tokens)):
            raise window.full(len(prompt.tokens), shifted=self.ctx_shift)
        self.opened = prompt.opened
        notices = engine.template.notices_for(self.messages) if fresh else ()
        return prompt, [*notices, *window.notice(before, self.dropped)]

    def _render(self, engine: ChatEngine, messages: Sequence[Message]) -> Prompt:
        text = engine.template.render(messages)
        tokens = self._transcript.encode(text) if self._transcript else engine.template.fence.encode(text)
        return Prompt(text, tokens, opened_by(text))

    def _settings(self, engine: ChatEngine) -> Settings:
        """The settings of an answer: the form of the prompt may need stop strings of its own."""
        return replace(self.settings, stop=(*self.settings.stop, *engine.template.stop))

    def _messages(self, start: int, end: int | None = None) -> list[Message]:
        messages = [Message("system", self.system)] if self.system else []
        for turn in self.turns[start:end]:
            messages.append(Message("user", turn.user))
            if turn.answer is not None and turn.answer.text:
                messages.append(Message("assistant", turn.answer.text))
        return messages


def now() -> str:
    """The time in UTC as ISO 8601, fine enough to tell which of two short answers came last."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")
