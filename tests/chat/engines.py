"""Engines around the real one, for tests that need to see or disturb what a conversation asks of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nsd_local.api import Engine
from nsd_local.decoding.decoder import never
from nsd_local.decoding.events import Event
from nsd_local.decoding.settings import Settings
from nsd_local.errors import DecodeError


class Watched:
    """The engine, and every prompt it was given."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.template, self.target, self.decoder = engine.template, engine.target, engine.decoder
        self.prompts: list[list[int]] = []

    def stream(
        self, prompt: Sequence[int], settings: Settings | None = None, *, cancelled: Callable[[], bool] = never
    ) -> Iterator[Event]:
        self.prompts.append(list(prompt))
        return self._events(prompt, settings, cancelled)

    def _events(
        self, prompt: Sequence[int], settings: Settings | None, cancelled: Callable[[], bool]
    ) -> Iterator[Event]:
        return self.engine.stream(prompt, settings, cancelled=cancelled)


class Forgetful(Watched):
    """Its memories hold something else before every answer, so that nothing is reused."""

    def _events(
        self, prompt: Sequence[int], settings: Settings | None, cancelled: Callable[[], bool]
    ) -> Iterator[Event]:
        other = (prompt[0] + 1) % 256
        self.engine.generate([other, other], Settings(max_tokens=1))
        return super()._events(prompt, settings, cancelled)


class Failing(Watched):
    """Fails after so many events."""

    after = 3

    def _events(
        self, prompt: Sequence[int], settings: Settings | None, cancelled: Callable[[], bool]
    ) -> Iterator[Event]:
        for i, event in enumerate(super()._events(prompt, settings, cancelled)):
            if i == self.after:
                raise DecodeError("The batch could not be evaluated")
            yield event
