"""The page as a whole: bar, banners, and the three pages chat, race and doctor."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

# Read by Gradio when it is imported. Nothing is told to anybody, and nothing is asked of the network.
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

import gradio as gr

from nsd_local.chat.store import Store, conversations_folder

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
    """One engine, one store of conversations, any number of pages. Use as a context manager, or call `close`."""

    def __init__(self, choice: Choice | None = None, *, folder: Path | None = None, opener: Opener = open_pair) -> None:
        folder = folder or conversations_folder().parent
        self.base = choice or Choice()
        self.session = Session(opener)
        self.memory = Memory(folder / "ui.json")
        self.speeds = Speeds()
        self.talk = Talk(
            self.session, Store(folder / "conversations"), Answers(folder / "answers"), self.memory, self.speeds
        )
        self.races = Races(self.session, self.speeds)
        self.tabs = Tabs()
        self.feed = Feed(self.session, self.talk, self.races)
        self.blocks = self._blocks()
        self.session.open(self.choice)

    @property
    def choice(self) -> Choice:
        """The pair to load: what the command line said, else what the pickers remember."""
        return self.base if self.base.model else self.memory.now.choice(self.base)

    def _blocks(self) -> gr.Blocks:
        with gr.Blocks(title="nsd-local", analytics_enabled=False, fill_width=True) as blocks:
            part("bar")
            part("banners")
            functions = [self.feed.live, self.feed.answers, self.feed.export, self.races.replay]
            desk = part("desk", value={"conversation": "", "version": 0}, serves=functions)
            with gr.Tabs(elem_id="pages"):
                with gr.Tab("Chat", id="chat"):
                    ChatPage(self.talk, self.tabs, desk, self.base, blocks)
                with gr.Tab("Race", id="race"):
                    race = RacePage(self.races, self.memory)
                with gr.Tab("Doctor", id="doctor") as tab:
                    doctor = DoctorPage(self.session)
            race.wire()
            doctor.wire(tab)
            quiet: dict[str, Any] = {"show_progress": "hidden", "queue": False, "api_visibility": "private"}
            desk.act(self._act, None, None, **quiet)
            blocks.unload(self._closed)
        return blocks

    def _act(self, event: gr.EventData) -> None:
        """A button in a banner."""
        from dataclasses import replace

        name = event.name
        if name == "retry":
            self.session.open(self.choice)
        elif name == "fetch":
            self.session.open(replace(self.choice, fetch=True))
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
