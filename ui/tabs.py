"""Where each open page stands: which conversation it shows, and which of its updates is still wanted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Tab:
    """One open page, known by Gradio's session hash.

    A page shows one thing at a time, but a running answer feeds it through a generator of its own. `view` numbers
    what is shown: a generator whose number is no longer the tab's stops quietly, and `take_over` waits for that, so
    that an old answer never writes into a conversation that was opened after it.
    """

    key: str
    conversation: str = ""
    view: int = 0
    version: int = 0  # grows with every change of what the page shows; its script compares it
    busy: bool = False  # the page was told that an answer is under way
    asked: list[str] = field(default_factory=list)  # the questions that it shows
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def take_over(self) -> Iterator[int]:
        """Ends whatever feeds the page now, then feeds it: the number to compare with `view`."""
        self.view += 1
        mine = self.view
        # A feeder looks at `view` at least twice a second; one that hangs must not lock the page.
        held = self._turn.acquire(timeout=5.0)
        try:
            yield mine
        finally:
            if held:
                self._turn.release()

    def place(self, *, busy: bool, said: str) -> dict[str, object]:
        """What the page's script needs to know of a page that has turned: is an answer under way, what to put back."""
        self.version += 1
        self.busy = busy
        return {"conversation": self.conversation, "version": self.version, "busy": busy, "said": said}


class Tabs:
    """All open pages."""

    def __init__(self) -> None:
        self._tabs: dict[str, Tab] = {}

    def of(self, key: str | None) -> Tab:
        key = key or "none"
        if key not in self._tabs:
            self._tabs[key] = Tab(key)
        return self._tabs[key]

    def closed(self, key: str | None) -> None:
        tab = self._tabs.pop(key or "none", None)
        if tab is not None:
            tab.view += 1
