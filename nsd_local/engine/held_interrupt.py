"""An interrupt (Ctrl-C) that waits until llama.cpp is back."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class HeldInterrupt:
    """While entered, what the handler of interrupts raises is kept in `error`, for the caller to raise afterwards.

    Python raises it wherever it happens to be, also on the way into a callback, and what leaves a callback is lost.
    """

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._previous: Any = None  # the handler, while another stands in for it

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        try:
            self._previous(number, frame)
        except BaseException as error:  # noqa: BLE001  raised by the caller
            self.error = error

    def __enter__(self) -> HeldInterrupt:
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and threading.current_thread() is threading.main_thread():  # others get no signals
            self._previous = handler
            signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
