"""Stopping llama.cpp in the middle of a computation (CPUs only)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from time import perf_counter
from types import FrameType, TracebackType
from typing import Any

_INTERVAL = 0.05  # seconds between questions: llama.cpp asks before every operation


class Abort:
    """While entered, llama_decode stops with code 2 soon after `cancelled` says so.

    `fired` tells whether it did; `error` holds an exception that `cancelled` raised, which must not pass through C.
    Nor may that of an interrupt (Ctrl-C), which Python raises wherever it happens to be, also on the way into the
    callback: its handler is called here, as usual, and what it raises is kept until the computation is back.
    """

    def __init__(self, lib: Any, handle: Any, cancelled: Callable[[], bool]) -> None:
        self._lib, self._handle, self._cancelled = lib, handle, cancelled
        self._callback = lib.ggml_abort_callback(self._ask)
        self._asked = perf_counter()
        self.fired = False
        self.error: BaseException | None = None
        self._previous: Any = None  # the handler of interrupts, while another stands in for it

    def _ask(self, _user: Any) -> bool:
        try:
            if not self.fired and perf_counter() - self._asked > _INTERVAL:
                if self._cancelled():  # an interrupt may have fired meanwhile
                    self.fired = True
                self._asked = perf_counter()
        except BaseException as error:  # noqa: BLE001  raised by the caller once llama_decode is back
            self.error, self.fired = error, True
        return self.fired

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        try:
            self._previous(number, frame)
        except BaseException as error:  # noqa: BLE001  raised on leaving
            self.error, self.fired = error, True

    def __enter__(self) -> Abort:
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and threading.current_thread() is threading.main_thread():  # others get no signals
            self._previous = handler
            signal.signal(signal.SIGINT, self._interrupted)
        self._lib.llama_set_abort_callback(self._handle, self._callback, None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lib.llama_set_abort_callback(self._handle, self._lib.ggml_abort_callback(0), None)
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
        if self.error is not None and self.error is not error:
            raise self.error from None
