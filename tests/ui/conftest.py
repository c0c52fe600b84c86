"""The app in a process of its own, and a browser that tells of every error and every foreign request."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, expect, sync_playwright

from scripts import chromium
from tests import tiny
from tests.tiny import Tiny

REPOSITORY = Path(__file__).parents[2]
Models = tuple[Path, Path]  # target, draft
PATIENCE_MS = 60_000  # a busy machine of two cores may be slow; nothing here measures time
expect.set_options(timeout=PATIENCE_MS)


@dataclass
class Server:
    """A running app."""

    url: str
    folder: Path
    process: subprocess.Popen[str]

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=60)


def start(folder: Path, target: str | Path, draft: str | Path, **preferences: Any) -> Server:
    """Starts the app on a free port, with these preferences remembered from "before"."""
    folder.mkdir(parents=True, exist_ok=True)
    if preferences:
        (folder / "ui.json").write_text(json.dumps(preferences), "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "NSD_LOCAL_HOME": str(folder)}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.ui.server", str(folder), str(target), str(draft)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
        env=environment,
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    assert url.startswith("http"), f"the app did not start: {url!r}"
    return Server(url, folder, process)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """A target and a related draft that never end by themselves."""
    folder = tmp_path_factory.mktemp("ui-models")
    long = {"stop_bias": -30.0, "n_ctx_train": 65_536}
    target = tiny.write(folder / "target.gguf", Tiny(seed=1, **long))
    draft = tiny.write(folder / "draft.gguf", Tiny(seed=1, noise=0.02, **long))
    return target, draft


@pytest.fixture(scope="session")
def server(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app whose answers have 40 tokens."""
    running = start(tmp_path_factory.mktemp("ui-short"), *models, max_tokens=40, k="4")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def endless(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app whose answers go on until the context is full."""
    running = start(tmp_path_factory.mktemp("ui-endless"), *models, k="4")
    yield running
    running.stop()


@pytest.fixture(scope="session")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="session")
def browser(chromium_path: str, playwright: Playwright) -> Iterator[Browser]:
    with playwright.chromium.launch(executable_path=chromium_path, args=chromium.ARGUMENTS) as running:
        yield running


@pytest.fixture(scope="session")
def chromium_path() -> str:
    path = chromium.find()
    if path is None:
        reason = "no Chromium is installed: python scripts/test.py installs one"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@dataclass
class Watch:
    """What went wrong on the pages of a test."""

    errors: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def over(self, context: BrowserContext, url: str) -> None:
        def console(message: ConsoleMessage) -> None:
            if message.type == "error":
                self._error(message.text)

        context.on("console", console)
        context.on("weberror", lambda error: self._error(str(error.error)))
        context.on(
            "request",
            lambda request: (
                None if request.url.startswith((url, "data:", "blob:")) else self.foreign.append(request.url)
            ),
        )

    def _error(self, text: str) -> None:
        if "AbortError" not in text:  # a reload ends the requests that are under way
            self.errors.append(text)


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Fails the test at its end if a page had a console error or asked for something off this machine."""
    watch = Watch()
    yield watch
    assert watch.errors == []
    assert watch.foreign == []


Opens = Callable[..., "ChatPage"]


@pytest.fixture
def open_page(browser: Browser, watch: Watch) -> Iterator[Opens]:
    """Opens a page of an app in a browser profile of its own."""
    contexts: list[BrowserContext] = []

    def open_(server: Server, *, context: BrowserContext | None = None, **options: Any) -> ChatPage:
        if context is None:
            context = browser.new_context(**{"viewport": {"width": 1280, "height": 860}, **options})
            context.set_default_timeout(PATIENCE_MS)
            watch.over(context, server.url)
            contexts.append(context)
        page = context.new_page()
        page.goto(server.url)
        return ChatPage(page)

    yield open_
    for context in contexts:
        context.close()


class ChatPage:
    """The page as a person uses it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.input = page.get_by_role("textbox", name="Message")
        self.transcript = page.locator("#transcript")
        self.questions = self.transcript.locator(".message.user")
        self.answers = self.transcript.locator(".message.bot")
        self.stop_button = page.locator("#ask .stop-button")
        self.send_button = page.locator("#ask .submit-button")
        self.status = page.locator("#n-toolbar .n-line")
        self.banners = page.locator(".n-banner")
        self.chats = page.locator("#chats label")
        expect(page.locator(".n-chip")).to_have_attribute("data-state", "ready")
        self.turned(1)

    def say(self, text: str) -> None:
        """Sends a message."""
        expect(self.send_button).to_be_visible()
        self.input.fill(text)
        self.input.press("Enter")

    def ask(self, text: str) -> None:
        """Sends a message and waits for the whole answer."""
        before = self.version
        self.say(text)
        self.turned(before + 1)
        self.rest()

    @property
    def version(self) -> int:
        """How often the page has turned to something new."""
        return int(self.page.locator("body").get_attribute("data-version") or 0)

    def turned(self, version: int) -> None:
        self.page.wait_for_function("n => Number(document.body.dataset.version) >= n", arg=version)

    def rest(self) -> None:
        """Waits until nothing is being written."""
        self.page.wait_for_function("() => !document.body.dataset.busy")
        expect(self.stop_button).to_be_hidden()
        expect(self.send_button).to_be_visible()

    def new(self) -> None:
        before = self.version
        drawer = self.page.get_by_role("button", name="Conversations")
        if drawer.is_visible():  # narrow pages keep the list in a drawer
            drawer.click()
        self.page.get_by_role("button", name="New conversation").click()
        self.turned(before + 1)
        expect(self.transcript.get_by_text("Ask something.")).to_be_visible()

    def show(self, what: str) -> None:
        """Text or Tokens."""
        self.page.locator(".n-switch").get_by_text(what).click()
