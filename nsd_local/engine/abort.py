"""Stopping llama.cpp in the middle of a computation (CPUs only)."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from types import TracebackType
from typing import Any

from nsd_local.engine.held_interrupt import HeldInterrupt

_INTERVAL = 0.05  # seconds between questions: llama.cpp asks before every operation


class Abort(HeldInterrupt):
    """While entered, llama_decode stops with code 2 soon after `cancelled` says so, or after an interrupt.

    `fired` tells whether `cancelled` did; `error` holds an exception that it raised, which must not pass through C
    either, or that of the interrupt. The latter is raised on leaving.
    """

    def __init__(self, lib: Any, handle: Any, cancelled: Callable[[], bool]) -> None:
        super().__init__()
        self._lib, self._handle, self._cancelled = lib, handle, cancelled
        self._callback = lib.ggml_abort_callback(self._ask)
        self._asked = perf_counter()
        self.fired = False

    def _ask(self, _user: Any) -> bool:
        if not self.fired and self.error is None and perf_counter() - self._asked > _INTERVAL:
            try:
                self.fired = self._cancelled()
            except BaseException as error:  # noqa: BLE001  raised by the caller once llama_decode is back
                self.error = error
            self._asked = perf_counter()
        return self.fired or self.error is not None

    def __enter__(self) -> Abort:
        super().__enter__()
        self._lib.llama_set_abort_callback(self._handle, self._callback, None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lib.llama_set_abort_callback(self._handle, self._lib.ggml_abort_callback(0), None)
        super().__exit__(kind, error, trace)
        if self.error is not None and self.error is not error:
            raise self.error from None
