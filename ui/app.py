"""The page as a whole: bar, banners, and the three pages chat, race and doctor."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

# Read by Gradio when it is imported. Nothing is told to anybody, and nothing is asked of the network.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import gradio as gr

from nsd_local.chat.store import Store, conversations_folder
from nsd_local.decoding.settings import Settings

from .answers import Answers
from .chat_page import ChatPage
from .choice import Choice
from .doctor_page import DoctorPage
from .feed import Feed
from .opener import open_pair
from .parts import part
from .preferences import Memory
from .race import Races
from .race_page import RacePage
from .session import Opener, Session
from .speeds import Speeds
from .tabs import Tabs
from .talk import Talk


class App:
    """One engine, one store of conversations, any number of pages. Use as a context manager, or call `close`.

    `usual` are settings that no dial of the page sets.
    """

    def __init__(
        self,
        choice: Choice | None = None,
        *,
        usual: Settings | None = None,
        folder: Path | None = None,
        opener: Opener = open_pair,
    ) -> None:
        folder = folder or conversations_folder().parent
        self.session = Session(opener)
        self.memory = Memory(folder / "ui.json", usual)
        self.choice = self.memory.now.choice(choice or Choice())
        self.speeds = Speeds()
        self.talk = Talk(
            self.session, Store(folder / "conversations"), Answers(folder / "answers"), self.memory, self.speeds
        )
        self.races = Races(self.session, self.speeds)
        self.tabs = Tabs()
        self.feed = Feed(self.session, self.talk, self.races)
        self.blocks = self._blocks()
        self.load(self.choice)

    def load(self, choice: Choice) -> None:
        """Loads this pair, and again when a banner's button asks for it."""
        self.choice = choice
        self.session.open(choice)

    def _blocks(self) -> gr.Blocks:
        with gr.Blocks(title="nsd-local", analytics_enabled=False, fill_width=True) as blocks:
            part("bar")
            part("banners")
            functions = [self.feed.live, self.feed.answers, self.feed.export, self.races.replay]
            desk = part("desk", value={"conversation": "", "version": 0}, serves=functions)
            with gr.Tabs(elem_id="pages"):
                with gr.Tab("Chat", id="chat"):
                    ChatPage(self.talk, self.tabs, desk, blocks, self.choice, self.load)
                with gr.Tab("Race", id="race"):
                    race = RacePage(self.races, self.memory)
                with gr.Tab("Doctor", id="doctor") as tab:
                    doctor = DoctorPage(self.session)
            race.wire()
            doctor.wire(tab)
            quiet: dict[str, Any] = {"show_progress": "hidden", "queue": False, "api_visibility": "private"}
            desk.act(self.act, None, None, **quiet)
            blocks.unload(self._closed)
        return blocks

    def act(self, event: gr.EventData) -> None:
        """A button in a banner."""
        name = event.name
        if name == "retry":
            self.load(self.choice)
        elif name == "fetch":
            self.load(replace(self.choice, fetch=True))
        elif name == "halt":
            self.session.halt()

    def _closed(self, request: gr.Request) -> None:
        """A page was closed: what it waited for is stopped."""
        self.session.cancel_tab(request.session_hash or "")
        self.tabs.closed(request.session_hash)

    def close(self) -> None:
        self.blocks.close()
        self.session.close()

    def __enter__(self) -> App:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
