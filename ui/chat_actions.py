"""What the chat page's widgets call: each action gives the values that its outputs take.

Every action is followed by `stream` (the growing text, if an answer is under way) and `rest` (the page as it is once
the answer is whole). Values are plain wherever possible: Gradio keeps a component for each property update.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradio as gr

from nsd_local.chat.conversation import Conversation
from nsd_local.errors import NsdError, UsageError

from . import attachments
from .bubbles import Bubble, answer, bubbles, question
from .markup import toast, unmark
from .tabs import Tab, Tabs
from .talk import Answering, Talk

GLANCE = 0.25  # seconds after which it is noticed that the page has turned, or looks at the text again
PATIENCE = 20.0  # an update may cost a twentieth of the time between two: slower pages are updated less often
EMPTY = {"text": "", "files": []}
Page = tuple[list[Bubble], dict[str, Any], Any]  # transcript, place, list of conversations
Whole = tuple[list[Bubble], dict[str, Any], Any, str, str]  # and title, system prompt


class ChatActions:
    """Actions on the conversation that a tab shows."""

    def __init__(self, talk: Talk, tabs: Tabs) -> None:
        self.talk, self.tabs = talk, tabs

    # Which conversation is shown

    def load(self, request: gr.Request) -> Whole:
        return self._open(self.tabs.of(request.session_hash), self._latest())

    def new(self, request: gr.Request) -> Whole:
        return self._open(self.tabs.of(request.session_hash), self.talk.create())

    def choose(self, key: str, request: gr.Request) -> Whole:
        conversation = self.talk.get(key)
        if conversation is None:
            gr.Warning("This conversation is gone.")
        return self._open(self.tabs.of(request.session_hash), conversation or self._latest())

    def delete(self, request: gr.Request) -> Whole:
        tab = self.tabs.of(request.session_hash)
        self.talk.delete(tab.conversation)
        return self._open(tab, self._latest())

    def rename(self, title: str, request: gr.Request) -> Any:
        tab = self.tabs.of(request.session_hash)
        self.talk.rename(tab.conversation, title)
        return self._list(tab)

    def set_system(self, text: str, request: gr.Request) -> None:
        conversation = self._current(self.tabs.of(request.session_hash))
        if conversation.system == text:
            return
        try:
            conversation.system = text
        except NsdError as error:
            gr.Warning(toast(error))
            return
        self.talk.save(conversation)
        self.talk.memory.change(system=text)

    # What is asked

    def send(self, message: dict[str, Any], request: gr.Request) -> tuple[Any, ...]:
        """Takes a message; the input is emptied unless the message is refused."""
        tab = self.tabs.of(request.session_hash)
        conversation = self._current(tab)
        try:
            files = [attachments.read(Path(path)) for path in message.get("files") or []]
            self.talk.ask(tab.key, conversation, attachments.attach(message.get("text") or "", files))
        except NsdError as error:
            gr.Warning(toast(error))
            return (*self._page(tab), message)
        return (*self._page(tab), EMPTY)

    def retry(self, event: gr.RetryData, request: gr.Request) -> Page:
        def start(tab: Tab, conversation: Conversation, index: int) -> None:
            self.talk.retry(tab.key, conversation, index)

        return self._at(event.index, request, start)

    def edit(self, event: gr.EditData, request: gr.Request) -> Page:
        def start(tab: Tab, conversation: Conversation, index: int) -> None:
            attached = attachments.detach(conversation.turns[index].user)[1]
            text = attachments.attach(unmark(str(event.value)), attached)
            self.talk.edit(tab.key, conversation, index, text)

        return self._at(event.index, request, start)

    def undo(self, event: gr.UndoData, request: gr.Request) -> Page:
        """Takes a turn back; its text goes into the input."""

        def take_back(tab: Tab, conversation: Conversation, index: int) -> str:
            return attachments.detach(self.talk.undo(conversation, index))[0]

        return self._at(event.index, request, take_back)

    def stop(self, request: gr.Request) -> None:
        job = self.talk.running(self.tabs.of(request.session_hash).conversation)
        if job is not None:
            self.talk.session.cancel(job)

    # How the answer arrives

    def stream(self, request: gr.Request) -> Iterator[list[Bubble]]:
        """Feeds the page with a growing answer until it ends or the page turns to something else."""
        tab = self.tabs.of(request.session_hash)
        with tab.take_over() as mine:
            job = self.talk.running(tab.conversation)
            if job is None or tab.view != mine:  # a generator that gives nothing would empty the transcript
                yield self._page_text(tab)
                return
            base, tab.asked = before(job), asked(job.conversation, job)
            seen, shown = 0, ""
            while not job.finished.is_set():
                seen = job.live.wait(seen, timeout=0.4)
                if tab.view != mine:
                    yield self._page_text(tab)
                    return
                text = job.live.text
                if text != shown:
                    start = time.perf_counter()
                    yield [*base, *answer(text, opened=job.opened, running=True)]
                    shown = text
                    cost = time.perf_counter() - start
                    least = max(self.talk.session.pace, min(PATIENCE * cost, 2.0))
                    while tab.view == mine and (left := start + max(least, job.pace) - time.perf_counter()) > 0.0:
                        if job.finished.wait(min(left, GLANCE)):
                            break

    def rest(self, request: gr.Request) -> tuple[Any, ...]:
        """The page after an answer: as it is kept, or as it was before if it failed or was stopped while it waited."""
        tab = self.tabs.of(request.session_hash)
        job = self.talk.last(tab.conversation)
        if job is None or not tab.busy or self.talk.running(tab.conversation):
            return gr.skip(), gr.skip(), gr.skip()
        if job.live.state == "failed":
            gr.Warning(toast(job.live.note), duration=None)
        elif job.begun:
            return self._page(tab)
        return self._page(tab, said=attachments.detach(job.said)[0])

    # Values

    def _open(self, tab: Tab, conversation: Conversation) -> Whole:
        tab.conversation = conversation.id
        return (*self._page(tab), conversation.title if conversation.turns else "", conversation.system)

    def _at(self, bubble: Any, request: gr.Request, act: Callable[[Tab, Conversation, int], str | None]) -> Page:
        """Acts on the turn of a bubble, unless the page is behind: its bubbles are then those of other turns."""
        tab, said = self.tabs.of(request.session_hash), None
        conversation = self._current(tab)
        try:
            if tab.asked != asked(conversation, self.talk.running(conversation.id)):
                raise UsageError("This conversation went on in another tab", "", "Look at it, and try again")
            said = act(tab, conversation, turn_of(conversation, bubble))
        except NsdError as error:
            gr.Warning(toast(error))
        return self._page(tab, said=said or "")

    def _page(self, tab: Tab, said: str = "") -> Page:
        """The tab's conversation as it stands. `said` goes into the input."""
        conversation = self._current(tab)
        job = self.talk.running(conversation.id)
        return self._page_text(tab), tab.place(busy=job is not None, said=said), self._list(tab)

    def _page_text(self, tab: Tab) -> list[Bubble]:
        conversation = self._current(tab)
        job = self.talk.running(conversation.id)
        tab.asked = asked(conversation, job)
        return [*before(job), *answer(job.live.text)] if job else bubbles(conversation.messages)[0]

    def _list(self, tab: Tab) -> Any:
        titles = self.talk.titles()
        if tab.conversation not in [key for _, key in titles]:
            titles.insert(0, ("New conversation", tab.conversation))
        return gr.update(choices=titles, value=tab.conversation)

    def _latest(self) -> Conversation:
        titles = self.talk.titles()
        return (self.talk.get(titles[0][1]) if titles else None) or self.talk.create()

    def _current(self, tab: Tab) -> Conversation:
        conversation = self.talk.get(tab.conversation)
        if conversation is None:
            conversation = self.talk.create()
            tab.conversation = conversation.id
        return conversation


def before(job: Answering) -> list[Bubble]:
    """The bubbles above a running answer. Whether the job has begun or not, its question is the last one."""
    questions = asked(job.conversation, job)
    made: list[Bubble] = []
    for text, turn in zip(questions[:-1], job.conversation.turns, strict=False):
        made += question(text)
        if turn.answer is not None and turn.answer.text:
            made += answer(turn.answer.text, opened=turn.answer.opened)
    return made + [bubble for text in questions[-1:] for bubble in question(text)]


def asked(conversation: Conversation, job: Answering | None) -> list[str]:
    """The questions that a page shows: those of the conversation, and the one of a job that has not begun yet."""
    turns = conversation.turns
    questions = [turn.user for turn in turns]
    if job is None or not job.said or job.begun:
        return questions
    begins = bool(turns) and turns[-1].answer is None and turns[-1].user == job.said
    return questions if begins else [*questions, job.said]


def turn_of(conversation: Conversation, index: Any) -> int:
    """The turn that the bubble with this index belongs to."""
    bubble = index[0] if isinstance(index, (list, tuple)) else int(index)
    owners = bubbles(conversation.messages)[1]
    if not 0 <= bubble < len(owners):
        raise UsageError("This message is no longer there", "", "Reload the page")
    asked = [i for i, message in enumerate(conversation.messages) if message.role == "user"]
    return sum(i <= owners[bubble] for i in asked) - 1
