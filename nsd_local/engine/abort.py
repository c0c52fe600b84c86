"""Stopping llama.cpp in the middle of a computation (CPUs only)."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from types import TracebackType
from typing import Any

_INTERVAL = 0.05  # seconds between questions: llama.cpp asks before every operation


class Abort:
    """While entered, llama_decode stops with code 2 soon after `cancelled` says so.

    `fired` tells whether it did; `error` holds an exception that `cancelled` raised (KeyboardInterrupt, too), which
    must not pass through C.
    """

    def __init__(self, lib: Any, handle: Any, cancelled: Callable[[], bool]) -> None:
        self._lib, self._handle, self._cancelled = lib, handle, cancelled
        self._callback = lib.ggml_abort_callback(self._ask)
        self._asked = perf_counter()
        self.fired = False
        self.error: BaseException | None = None

    def _ask(self, _user: Any) -> bool:
        try:
            if not self.fired and perf_counter() - self._asked > _INTERVAL:
                self.fired = self._cancelled()
                self._asked = perf_counter()
        except BaseException as error:  # noqa: BLE001  raised by the caller once llama_decode is back
            self.error, self.fired = error, True
        return self.fired

    def __enter__(self) -> Abort:
        self._lib.llama_set_abort_callback(self._handle, self._callback, None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lib.llama_set_abort_callback(self._handle, self._lib.ggml_abort_callback(0), None)
