"""The chat page: widgets, and which action each of them calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr

from .chat_actions import ChatActions
from .choice import Choice
from .controls import Controls
from .markup import DELIMITERS
from .parts import part
from .picker import Picker
from .tabs import Tabs
from .talk import Talk
from .tokens_view import legend

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


class ChatPage:
    """Conversations left, talk in the middle, meters and controls right.

    `start` is the pair that is loaded at first; `load` loads another.
    """

    def __init__(
        self,
        talk: Talk,
        tabs: Tabs,
        desk: gr.HTML,
        blocks: gr.Blocks,
        start: Choice,
        load: Callable[[Choice], None],
    ) -> None:
        self.talk, self.desk, self.blocks, self.start, self.load = talk, desk, blocks, start, load
        self.actions = ChatActions(talk, tabs)
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
            stop_btn=True,  # the page's style sheet shows one of the two buttons
            max_lines=12,
            autofocus=True,
        )

    def _right(self) -> None:
        part("meters")
        self.controls = Controls(self.talk.memory)
        self.picker = Picker(self.talk.memory, self.start, self.load)
        with gr.Accordion("System prompt", open=False):
            self.system = gr.Textbox(
                label="System prompt",
                info="Read before the conversation; also used for new ones.",
                lines=3,
                max_lines=12,
                elem_id="c-system",
            )

    def _wire(self) -> None:
        actions = self.actions
        page = [self.transcript, self.desk, self.chats]
        whole = [*page, self.title, self.system]
        quiet: dict[str, Any] = {"show_progress": "hidden", "concurrency_limit": None, "api_visibility": "private"}
        quiet["trigger_mode"] = "multiple"  # "once" would drop what is sent while the last update is still arriving
        started = [
            self.ask.submit(actions.send, self.ask, [*page, self.ask], **quiet),
            self.transcript.retry(actions.retry, None, page, **quiet),
            self.transcript.edit(actions.edit, None, page, **quiet),
            self.transcript.undo(actions.undo, None, page, **quiet),
            self.new.click(actions.new, None, whole, **quiet),
            self.chats.input(actions.choose, self.chats, whole, **quiet),
            self.delete_yes.click(actions.delete, None, whole, **quiet),
            self.blocks.load(actions.load, None, whole, **quiet),
        ]
        for event in started:
            event.then(actions.stream, None, self.transcript, **quiet).then(actions.rest, None, page, **quiet)
        at_once = {**quiet, "queue": False}
        self.ask.stop(actions.stop, None, None, **at_once)
        self.title.submit(actions.rename, self.title, self.chats, **quiet)
        self.system.blur(actions.set_system, self.system, None, **quiet)
        self.delete.click(lambda: gr.update(visible=True), None, self.confirm, **at_once)
        for button in (self.delete_no, self.delete_yes):
            button.click(lambda: gr.update(visible=False), None, self.confirm, **at_once)
        for button, kind in ((self.as_markdown, "md"), (self.as_json, "json")):
            button.click(None, js=f"() => nsd.download('{kind}')", api_visibility="private")
        self.controls.wire()
        self.picker.wire()
        remembered = [*self.controls.fields.values(), self.controls.preset]
        self.blocks.load(self.picker.values, None, self.picker.fields, **at_once)
        self.blocks.load(lambda: [*self.controls.values(), self.talk.memory.now.preset], None, remembered, **at_once)
