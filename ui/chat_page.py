"""The chat page: widgets, and which action each of them calls."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr

from nsd_local.chat.conversation import Conversation
from nsd_local.errors import NsdError, UsageError

from . import attachments
from .bubbles import Bubble, answer, bubbles, question
from .choice import Choice
from .controls import Controls
from .markup import DELIMITERS, unmark
from .parts import part
from .picker import Picker
from .tabs import Tab, Tabs
from .talk import Answering, Talk
from .tokens_view import legend

FASTEST_S = 0.1  # at most ten updates a second
PATIENCE = 20.0  # an update may cost a twentieth of the time between two: slower pages are updated less often
PLACEHOLDER = "**Ask something.**\n\nThe answer streams here; *Tokens* shows how each of its tokens came about."
TEXT_FILES = [
    "text",
    ".md",
    ".py",
    ".json",
    ".jsonl",
    ".toml",
    ".yaml",
    ".yml",
    ".csv",
    ".tsv",
    ".log",
    ".c",
    ".h",
    ".cpp",
    ".rs",
    ".go",
    ".js",
    ".ts",
    ".java",
    ".sh",
    ".sql",
    ".tex",
    ".xml",
    ".html",
    ".css",
    ".ini",
    ".cfg",
]
Update = dict[Any, Any]


class ChatPage:
    """Conversations left, talk in the middle, meters and controls right."""

    def __init__(self, talk: Talk, tabs: Tabs, desk: gr.HTML, base: Choice) -> None:
        self.talk, self.tabs, self.desk, self.base = talk, tabs, desk, base
        with gr.Row(elem_id="desk"):
            with gr.Column(elem_id="left", min_width=0):
                self._left()
            with gr.Column(elem_id="middle", min_width=0):
                self._middle()
            with gr.Column(elem_id="right", min_width=0):
                self._right()
        self._wire()

    def _left(self) -> None:
        self.new = gr.Button("New conversation", elem_id="new-chat", variant="primary", size="md")
        self.chats = gr.Radio([], label="Conversations", show_label=False, elem_id="chats", container=False)
        with gr.Accordion("This conversation", open=False, elem_id="chat-actions"):
            self.title = gr.Textbox(
                label="Title", info="Enter renames the conversation.", elem_id="chat-title", max_lines=1
            )
            with gr.Row(elem_classes="n-buttons"):
                self.as_markdown = gr.Button("Export Markdown", size="sm", elem_id="export-md")
                self.as_json = gr.Button("Export JSON", size="sm", elem_id="export-json")
            self.delete = gr.Button("Delete", size="sm", variant="stop", elem_id="delete-chat")
            with gr.Group(visible=False, elem_id="confirm-delete") as self.confirm:
                gr.Markdown("Delete this conversation for good?")
                with gr.Row(elem_classes="n-buttons"):
                    self.delete_yes = gr.Button("Delete it", size="sm", variant="stop", elem_id="delete-yes")
                    self.delete_no = gr.Button("Keep it", size="sm", elem_id="delete-no")

    def _middle(self) -> None:
        part("toolbar", legend=legend())
        self.transcript = gr.Chatbot(
            elem_id="transcript",
            show_label=False,
            label="Conversation",
            container=False,
            height=None,
            editable="user",
            buttons=["copy"],
            latex_delimiters=DELIMITERS,
            sanitize_html=True,
            allow_tags=False,
            placeholder=PLACEHOLDER,
            feedback_options=None,
            allow_file_downloads=False,
        )
        part("tokens", elem_id="tokens")
        self.ask = gr.MultimodalTextbox(
            elem_id="ask",
            show_label=False,
            label="Your message",
            placeholder="Message. Shift+Enter for a new line.",
            file_types=TEXT_FILES,
            file_count="multiple",
            max_plain_text_length=20_000,
            max_lines=12,
            autofocus=True,
        )

    def _right(self) -> None:
        part("meters")
        self.controls = Controls(self.talk.memory)
        self.picker = Picker(self.talk, self.base)
        with gr.Accordion("System prompt", open=False):
            self.system = gr.Textbox(
                label="System prompt",
                info="Read before the conversation; also used for new ones.",
                lines=3,
                max_lines=12,
                elem_id="c-system",
            )

    def _wire(self) -> None:
        quiet: dict[str, Any] = {"show_progress": "hidden", "concurrency_limit": None, "api_visibility": "private"}
        quiet["trigger_mode"] = "multiple"  # "once" would drop what is sent while the last update is still arriving
        view = [self.transcript, self.desk, self.ask, self.chats, self.title, self.system]
        self.ask.submit(self._send, self.ask, view, **quiet)
        self.ask.stop(self._stop, None, None, queue=False, show_progress="hidden", api_visibility="private")
        self.transcript.retry(self._retry, None, view, **quiet)
        self.transcript.edit(self._edit, None, view, **quiet)
        self.transcript.undo(self._undo, None, view, **quiet)
        self.new.click(self._new, None, view, **quiet)
        self.chats.input(self._choose, self.chats, view, **quiet)
        self.title.submit(self._rename, self.title, view, **quiet)
        self.system.blur(self._set_system, self.system, None, **quiet)
        self.delete.click(lambda: gr.Group(visible=True), None, self.confirm, queue=False, api_visibility="private")
        self.delete_no.click(lambda: gr.Group(visible=False), None, self.confirm, queue=False, api_visibility="private")
        self.delete_yes.click(self._delete, None, [*view, self.confirm], **quiet)
        for button, kind in ((self.as_markdown, "md"), (self.as_json, "json")):
            button.click(None, js=f"() => nsd.download('{kind}')", api_visibility="private")
        self.controls.wire()
        self.picker.wire()
        self.view, self.quiet = view, quiet

    def on_load(self, blocks: gr.Blocks) -> None:
        """What a freshly opened page shows: the latest conversation, and the remembered values."""
        outputs = [*self.view, *self.controls.fields.values(), self.controls.preset]
        blocks.load(self._load, None, outputs, **self.quiet)

    # What the widgets call. Each ends what fed the page before, and gives the values that change.

    def _load(self, request: gr.Request) -> Iterator[Update]:
        tab = self.tabs.of(request.session_hash)
        titles = self.talk.titles()
        conversation = self.talk.get(titles[0][1]) if titles else None
        conversation = conversation or self.talk.create()
        remembered = dict(
            zip(
                [*self.controls.fields.values(), self.controls.preset],
                [*self.controls.values(), self.talk.memory.now.preset],
                strict=True,
            )
        )
        first = True
        for update in self._show(tab, conversation):
            yield update | remembered if first else update
            first = False

    def _new(self, request: gr.Request) -> Iterator[Update]:
        yield from self._show(self.tabs.of(request.session_hash), self.talk.create())

    def _choose(self, key: str, request: gr.Request) -> Iterator[Update]:
        tab = self.tabs.of(request.session_hash)
        conversation = self.talk.get(key)
        if conversation is None:
            gr.Warning("This conversation is gone.")
            conversation = self.talk.create()
        yield from self._show(tab, conversation)

    def _send(self, message: dict[str, Any], request: gr.Request) -> Iterator[Update]:
        tab = self.tabs.of(request.session_hash)
        conversation = self._current(tab)
        try:
            files = [attachments.read(Path(path)) for path in message.get("files") or []]
            job = self.talk.ask(tab.key, conversation, attachments.attach(message.get("text") or "", files))
        except NsdError as error:
            gr.Warning(str(error))
            return
        yield from self._follow(tab, job, first={self.ask: self._composer(running=True, value=None)})

    def _retry(self, event: gr.RetryData, request: gr.Request) -> Iterator[Update]:
        tab = self.tabs.of(request.session_hash)
        conversation = self._current(tab)
        yield from self._again(
            tab, lambda: self.talk.retry(tab.key, conversation, self._turn(conversation, event.index))
        )

    def _edit(self, event: gr.EditData, request: gr.Request) -> Iterator[Update]:
        tab = self.tabs.of(request.session_hash)
        conversation = self._current(tab)
        index = self._turn(conversation, event.index)
        old = conversation.turns[index].user
        text = attachments.attach(unmark(str(event.value)), attachments.detach(old)[1])
        yield from self._again(tab, lambda: self.talk.edit(tab.key, conversation, index, text))

    def _again(self, tab: Tab, start: Any) -> Iterator[Update]:
        try:
            job = start()
        except NsdError as error:
            gr.Warning(str(error))
            yield from self._show(tab, self._current(tab))
            return
        yield from self._follow(tab, job, first={self.ask: self._composer(running=True)})

    def _undo(self, event: gr.UndoData, request: gr.Request) -> Iterator[Update]:
        tab = self.tabs.of(request.session_hash)
        conversation = self._current(tab)
        said = self.talk.undo(conversation, self._turn(conversation, event.index))
        text = attachments.detach(said)[0]
        for update in self._show(tab, conversation):
            yield update | {self.ask: self._composer(running=False, value=text)}

    def _stop(self, request: gr.Request) -> None:
        job = self.talk.running(self.tabs.of(request.session_hash).conversation)
        if job is not None:
            self.talk.session.cancel(job)

    def _rename(self, title: str, request: gr.Request) -> Update:
        tab = self.tabs.of(request.session_hash)
        self.talk.rename(tab.conversation, title)
        return {self.chats: self._list(tab)}

    def _set_system(self, text: str, request: gr.Request) -> None:
        conversation = self._current(self.tabs.of(request.session_hash))
        if conversation.system != text:
            conversation.system = text
            self.talk.save(conversation)
            self.talk.memory.change(system=text)

    def _delete(self, request: gr.Request) -> Iterator[Update]:
        tab = self.tabs.of(request.session_hash)
        self.talk.delete(tab.conversation)
        titles = self.talk.titles()
        conversation = (self.talk.get(titles[0][1]) if titles else None) or self.talk.create()
        for update in self._show(tab, conversation):
            yield update | {self.confirm: gr.Group(visible=False)}

    # Showing

    def _show(self, tab: Tab, conversation: Conversation) -> Iterator[Update]:
        """The conversation as it stands, and its answer as it grows if one is under way."""
        tab.conversation = conversation.id  # at once: a message sent from now on belongs here
        job = self.talk.running(conversation.id)
        if job is not None:
            yield from self._follow(tab, job, first={self.ask: self._composer(running=True)})
            return
        with tab.take_over() as mine:
            if tab.view == mine:
                yield self._whole(tab, conversation) | {self.ask: self._composer(running=False)}

    def _follow(self, tab: Tab, job: Answering, first: Update) -> Iterator[Update]:
        """Feeds the page with a growing answer until it ends or the page turns to something else."""
        conversation = job.conversation
        tab.conversation = conversation.id
        with tab.take_over() as mine:
            base = self._before(conversation, job)
            yield self._frame(tab, conversation) | {self.transcript: [*base, *answer("")]} | first
            seen, shown, pause = 0, "", FASTEST_S
            while not job.finished.is_set():
                seen = job.live.wait(seen, timeout=0.4)
                if tab.view != mine:
                    return
                text = job.live.text
                if text != shown:
                    start = time.perf_counter()
                    yield {self.transcript: [*base, *answer(text, running=True)]}
                    shown = text
                    pause = max(FASTEST_S, PATIENCE * (time.perf_counter() - start), job.pace)
                    job.finished.wait(min(pause, 2.0))
            yield self._end(tab, job)

    def _end(self, tab: Tab, job: Answering) -> Update:
        """The page after an answer: as it is kept, or as it was before if it failed."""
        update = self._whole(tab, job.conversation) | {self.ask: self._composer(running=False)}
        if job.live.state == "failed":
            if job.said:
                update[self.ask] = self._composer(running=False, value=attachments.detach(job.said)[0])
            gr.Warning(job.live.note, duration=None)
        return update

    def _whole(self, tab: Tab, conversation: Conversation) -> Update:
        return self._frame(tab, conversation) | {self.transcript: bubbles(conversation.messages)[0]}

    def _frame(self, tab: Tab, conversation: Conversation) -> Update:
        return {
            self.desk: tab.place(changed=True),
            self.chats: self._list(tab),
            self.title: conversation.title if conversation.turns else "",
            self.system: conversation.system,
        }

    def _before(self, conversation: Conversation, job: Answering) -> list[Bubble]:
        """The bubbles above the running answer. Whether the job has begun or not, its question is the last one."""
        turns = conversation.turns
        asked = job.said or (turns[-1].user if turns else "")
        begun = bool(turns) and turns[-1].answer is None and turns[-1].user == asked
        old = turns[:-1] if begun or not job.said else turns
        made: list[Bubble] = []
        for turn in old:
            made += question(turn.user)
            if turn.answer is not None and turn.answer.text:
                made += answer(turn.answer.text, opened=turn.answer.opened)
        return made + question(asked)

    def _list(self, tab: Tab) -> Any:
        titles = self.talk.titles()
        keys = [key for _, key in titles]
        if tab.conversation not in keys:
            titles.insert(0, ("New conversation", tab.conversation))
        return gr.Radio(choices=titles, value=tab.conversation)

    def _composer(self, *, running: bool, **value: Any) -> Any:
        return gr.MultimodalTextbox(submit_btn=not running, stop_btn=running, **value)

    def _current(self, tab: Tab) -> Conversation:
        conversation = self.talk.get(tab.conversation)
        if conversation is None:
            conversation = self.talk.create()
            tab.conversation = conversation.id
        return conversation

    def _turn(self, conversation: Conversation, index: Any) -> int:
        """The turn that the bubble with this index belongs to."""
        bubble = index[0] if isinstance(index, (list, tuple)) else int(index)
        owners = bubbles(conversation.messages)[1]
        if not 0 <= bubble < len(owners):
            raise UsageError("This message is no longer there", "", "Reload the page")
        asked = [i for i, message in enumerate(conversation.messages) if message.role == "user"]
        return sum(i <= owners[bubble] for i in asked) - 1
