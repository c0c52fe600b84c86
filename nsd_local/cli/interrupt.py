"""Ctrl-C as a wish that the loop asks for between two steps, instead of an exception anywhere."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """While active, the first Ctrl-C only notes the wish to stop; a second one ends the program as usual."""

    def __init__(self) -> None:
        self._asked = False
        self._before: Any = None

    def asked(self) -> bool:
        """Was Ctrl-C pressed?"""
        return self._asked

    def reset(self) -> None:
        """Forget it: the next answer starts afresh."""
        self._asked = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():  # only there may handlers be set
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
