"""What a person can do with a conversation, and the answers that come of it."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any

from nsd_local.api import Engine
from nsd_local.chat.conversation import Conversation
from nsd_local.chat.reasoning import opened_by
from nsd_local.chat.store import Store
from nsd_local.chat.turn import Turn, title_of
from nsd_local.decoding.events import Event, Finished
from nsd_local.errors import NsdError, UsageError

from .answers import Answers, Record, pieces_of
from .live import Live
from .preferences import Memory
from .session import Job, Session
from .speeds import Speeds

KEPT = 8  # conversations held in memory; the others are read from disk when they are opened again


class Answering(Job):
    """A job that answers the last message of a conversation."""

    def __init__(self, tab: str, conversation: Conversation, said: str, run: Callable[[Job, Engine], None]) -> None:
        super().__init__(tab, conversation.title, run, Live())
        self.conversation = conversation
        self.said = said  # what goes back into the input if it fails or never begins
        self.begun = False  # from here on its question is part of the conversation
        self.opened = ""  # the reasoning tag that the prompt leaves open
        self.pace = 0.0  # seconds between two updates of its text, as the pages ask for
        self._read = 0.0  # when a page last said that it shows the text

    def watch(self, text: bool, seldom: float) -> float:
        """A page asks, and shows the text of this answer or not. Returns the least seconds between two updates of the
        text: they come `seldom` while no page shows it."""
        now = time.monotonic()
        if text:
            self._read = now
        return max(1.0, seldom) if now - self._read > 2.0 * seldom else 0.0


class Talk:
    """The conversations of this machine's user and the answers under way in them."""

    def __init__(self, session: Session, store: Store, answers: Answers, memory: Memory, speeds: Speeds) -> None:
        self.session, self.store, self.answers, self.memory, self.speeds = session, store, answers, memory, speeds
        self._lock = threading.RLock()
        self._open: OrderedDict[str, Conversation] = OrderedDict()
        self._last: OrderedDict[str, Answering] = OrderedDict()  # the latest answer of each open conversation

    # Conversations

    def titles(self) -> list[tuple[str, str]]:
        """(title, id) of all conversations, the latest first; those whose first answer is under way before them."""
        kept = [(entry.title, entry.id) for entry in self.store.list()]
        known = {key for _, key in kept}
        jobs = [job for job in self.session.jobs() if isinstance(job, Answering)]
        begun = [(title_of(job.said), job.conversation.id) for job in jobs if job.conversation.id not in known]
        return begun + kept

    def create(self) -> Conversation:
        """A new conversation; it is kept once something was said in it."""
        conversation = Conversation(system=self.memory.now.system)
        self._hold(conversation)
        return conversation

    def get(self, key: str) -> Conversation | None:
        """A conversation by its id; None where it is gone."""
        with self._lock:
            if key in self._open:
                self._open.move_to_end(key)
                return self._open[key]
        try:
            conversation = self.store.load(key)
        except NsdError:
            return None
        self._hold(conversation)
        return conversation

    def rename(self, key: str, title: str) -> None:
        conversation = self.get(key)
        if conversation is not None and title.strip():
            conversation.title = title
            self.save(conversation)

    def delete(self, key: str) -> None:
        running = self.running(key)
        if running is not None:
            self.session.cancel(running)
            running.finished.wait()
        with self._lock:
            self._open.pop(key, None)
            self._last.pop(key, None)
        self.store.delete(key)
        self.answers.forget(key)

    def save(self, conversation: Conversation) -> None:
        """Writes a conversation to disk if there is anything in it."""
        if conversation.turns or conversation.named:
            self.store.save(conversation)

    def _hold(self, conversation: Conversation) -> None:
        with self._lock:
            self._open[conversation.id] = conversation
            for key in list(self._open)[:-KEPT]:
                if self.running(key) is None:
                    del self._open[key]
                    self._last.pop(key, None)

    # Answers

    def running(self, key: str) -> Answering | None:
        """The answer that is under way or waiting in this conversation."""
        for job in self.session.jobs():
            if isinstance(job, Answering) and job.conversation.id == key:
                return job
        return None

    def last(self, key: str) -> Answering | None:
        """The latest answer asked for in this conversation since it was opened."""
        return self._last.get(key)

    def ask(self, tab: str, conversation: Conversation, text: str) -> Answering:
        if not text.strip():
            raise UsageError("The message is empty", "", "Write something first")
        return self._answer(
            tab, conversation, text, lambda engine, stop: conversation.ask(engine, text, cancelled=stop)
        )

    def retry(self, tab: str, conversation: Conversation, index: int) -> Answering:
        """Answers turn `index` anew; later turns go."""
        self._quiet(conversation)
        turn = conversation.turns[index]
        if index != len(conversation.turns) - 1:
            conversation.edit(index, turn.user)
        return self._answer(tab, conversation, "", lambda engine, stop: conversation.retry(engine, cancelled=stop))

    def edit(self, tab: str, conversation: Conversation, index: int, text: str) -> Answering:
        """Changes what was said in turn `index` and answers it."""
        self._quiet(conversation)
        conversation.edit(index, text)
        return self._answer(tab, conversation, "", lambda engine, stop: conversation.retry(engine, cancelled=stop))

    def undo(self, conversation: Conversation, index: int) -> str:
        """Takes back turn `index` and all later ones; returns what was said in it."""
        self._quiet(conversation)
        said = ""
        while len(conversation.turns) > index:
            said = conversation.undo()
        self.store.save(conversation)
        return said

    def _quiet(self, conversation: Conversation) -> None:
        """Nothing may change under a running answer: stop it first."""
        running = self.running(conversation.id)
        if running is not None:
            self.session.cancel(running)
            running.finished.wait()

    def _answer(
        self,
        tab: str,
        conversation: Conversation,
        said: str,
        stream: Callable[[Any, Callable[[], bool]], Iterator[Event]],
    ) -> Answering:
        if self.running(conversation.id) is not None:
            raise UsageError("This conversation is being answered", "one answer at a time", "Stop it first, or wait")
        settings = self.memory.settings()

        def run(job: Job, engine: Engine) -> None:
            target = engine.target
            conversation.settings = settings

            def piece(token: int) -> str:
                return target.piece(token).decode("utf-8", "replace")

            self.speeds.recall(engine)
            job.live.begin(settings.budget, piece, self.speeds.of(target.description))
            try:
                for i, event in enumerate(stream(engine, job.cancelled)):
                    if i == 0:
                        answering.begun = True
                        self.save(conversation)  # the question is safe whatever happens now
                        answering.opened = opened_by(engine.template.render(conversation.messages))
                    job.live.feed(event)
                    if isinstance(event, Finished):
                        self.speeds.learn(target.description, event.result, "measured in a plain answer")
            finally:
                self._finish(conversation, job.live, piece)

        answering = Answering(tab, conversation, said, run)
        with self._lock:
            self._last[conversation.id] = answering
        self.session.submit(answering)
        return answering

    def _finish(self, conversation: Conversation, live: Live, piece: Callable[[int], str]) -> None:
        """Keeps the answer on disk. In memory, and in the conversation's file, its records do not stay."""
        turn: Turn | None = conversation.turns[-1] if conversation.turns else None
        answer = turn.answer if turn else None
        if turn is not None and answer is not None and answer.rounds:
            record = Record(answer.rounds, pieces_of(answer.rounds, piece), _ending(live), live.meters.budget)
            self.answers.keep(conversation.id, len(conversation.turns) - 1, answer.text, record)
            conversation.turns[-1] = replace(turn, answer=replace(answer, rounds=(), result=None))
        self.save(conversation)

    def complete(self, conversation: Conversation) -> Conversation:
        """A copy with the records of its answers, for export."""
        whole = copy(conversation)
        whole.turns = [self._with_record(conversation.id, i, turn) for i, turn in enumerate(conversation.turns)]
        return whole

    def _with_record(self, key: str, index: int, turn: Turn) -> Turn:
        record = self.answers.of(key, index, turn.answer.text) if turn.answer else None
        return replace(turn, answer=replace(turn.answer, rounds=record.rounds)) if record and turn.answer else turn


def _ending(live: Live) -> str:
    if live.result is None or live.result.finish_reason == "cancelled":
        return "stopped"
    return "cut off at the length limit" if live.result.finish_reason == "length" else ""
