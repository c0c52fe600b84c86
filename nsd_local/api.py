"""The public face: `load` gives an `Engine` for a pair; `.stream` yields events, `.generate` joins them.

import nsd_local
with nsd_local.load() as engine:                      # the default pair; any catalog name or GGUF path
    print(engine.generate("Say hello.").text)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from nsd_local import checks
from nsd_local.chat.message import Message
from nsd_local.chat.template import Template
from nsd_local.decoding.decoder import Decoder, never
from nsd_local.decoding.events import Event, Finished
from nsd_local.decoding.records import Result
from nsd_local.decoding.settings import Settings
from nsd_local.engine.context import Context
from nsd_local.engine.model import Model
from nsd_local.engine.session_file import restore_session, save_session
from nsd_local.errors import UsageError
from nsd_local.loading import Loaded, LoadOptions, load_pair

Prompt = str | Sequence[Message] | Sequence[int]


def _is_chat(prompt: Prompt) -> bool:
    """Is it a text or messages, and not token ids? Raises UsageError for what is none of these."""
    if isinstance(prompt, bytes) or not isinstance(prompt, Iterable):
        what = "A prompt is a text, a list of messages, or a list of token ids"
        raise UsageError(f"{what}, not {type(prompt).__name__}")
    return isinstance(prompt, str) or any(isinstance(part, Message) for part in prompt)


class Engine:
    """A loaded target with what drafts for it. One answer at a time; other threads wait for their turn."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self.target: Model = loaded.target.model
        self.draft: Model | None = loaded.draft.model if loaded.draft else None
        self.decoder: Decoder = loaded.decoder
        self.template = Template(self.target)
        self.notices = loaded.notices  # what to know about the pair
        self.n_ctx: int = loaded.decoder.target.n_ctx
        self._turn = threading.Lock()  # held for a whole answer
        self._step = threading.Lock()  # held within a step of it: nothing is freed in the middle of one
        self._thread: int | None = None  # the thread that read the last step of the answer under way

    def stream(
        self,
        prompt: Prompt,
        settings: Settings | None = None,
        *,
        raw: bool = False,
        system: str | None = None,
        cancelled: Callable[[], bool] = never,
    ) -> Iterator[Event]:
        """Answers a text, a list of messages, or token ids (taken as they are), as a stream of events.

        A text is put into the model's chat template unless `raw`. `cancelled` is asked between rounds. Closing the
        iterator early is fine: the next request works.
        """
        settings = settings or Settings()
        if _is_chat(prompt) and not raw:  # the form of the prompt may need stop strings of its own
            settings = replace(settings, stop=(*settings.stop, *self.template.stop))
        return self._answer(self.tokens(prompt, raw=raw, system=system), settings, cancelled)

    def generate(self, prompt: Prompt, settings: Settings | None = None, **more: Any) -> Result:
        """The whole answer at once; takes what `stream` takes."""
        for event in self.stream(prompt, settings, **more):
            if isinstance(event, Finished):
                return event.result
        raise RuntimeError("the stream of events ended without Finished")

    def tokens(self, prompt: Prompt, *, raw: bool = False, system: str | None = None) -> list[int]:
        """The token ids that a prompt stands for. Raises UsageError for what is no prompt."""
        if not _is_chat(prompt):
            last = self.target.n_vocab - 1
            return [checks.as_whole("a token id", part, 0, last, must=f"lie in 0..{last}") for part in prompt]
        if isinstance(prompt, str):
            if raw:
                return self.target.tokenize(prompt, special=True, add_bos=True)
            prompt = [Message("user", prompt)]
        messages = [part for part in prompt if isinstance(part, Message)]
        if len(messages) < len(prompt):
            raise UsageError("A prompt is a text, a list of messages, or a list of token ids", "", "Do not mix them")
        return self.template.tokens([Message("system", system), *messages] if system is not None else messages)

    def _answer(self, tokens: Sequence[int], settings: Settings, cancelled: Callable[[], bool]) -> Iterator[Event]:
        with self._alone(), closing(self.decoder.stream(tokens, settings, cancelled=cancelled)) as events:
            while True:
                with self._step:
                    self._thread = threading.get_ident()
                    event = next(events)
                if isinstance(event, Finished):
                    break
                yield event
        yield self._timed(event)  # the answer is over, also for a reader who asks no further

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One answer, save or restore at a time: other threads wait, the thread that reads an answer is refused."""
        if self._thread == threading.get_ident():
            raise UsageError(
                "Another answer of this engine is still under way",
                "an engine does one thing at a time",
                "Read it to its end, or close its iterator first",
            )
        with self._turn:
            try:
                yield
            finally:
                self._thread = None

    def _timed(self, event: Finished) -> Finished:
        """The decoder does not know how long loading took."""
        return replace(event, result=replace(event.result, load_s=self._loaded.load_s))

    @property
    def contexts(self) -> dict[str, Context]:
        """The memories by role: the target's and, where a model drafts, the draft's."""
        return self._loaded.contexts

    def describe(self) -> dict[str, Any]:
        """What is loaded, for the JSON document: files, names, memory verdicts, automatic choices."""
        return self._loaded.describe()

    def save(self, path: Path | str, note: Mapping[str, Any] | None = None) -> None:
        """Writes the memories and a note to a session file, atomically. Raises SessionError."""
        with self._alone(), self._step:
            save_session(Path(path), self.contexts, note)

    def restore(self, path: Path | str) -> dict[str, Any]:
        """Brings the memories to what a session file holds; returns its note.

        Raises SessionError with the reason for any other file.
        """
        with self._alone(), self._step:
            if self.decoder.proposer is not None:  # measuring the pair, if it never was, would empty the memories later
                self.decoder.adaptive(never)
            return restore_session(Path(path), self.contexts)

    def close(self) -> None:
        """Frees contexts, then models. An answer under way ends with an error at its next step."""
        with self._step:
            self._loaded.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def load(model: str | Path | None = None, draft: str | Path | None = None, **options: Any) -> Engine:
    """Load a target and what drafts for it.

    `model`: catalog name, GGUF path or `hf-repo:quant`; None is the default pair. `draft`: the same, or "none",
    "ngram" (prompt lookup) or "auto" (lookup and draft model; "auto:NAME" says which); None is the pair's own draft,
    or prompt lookup for a model outside the catalog. `options` are the fields of `LoadOptions`.

    Raises ModelError, PairError (a draft that does not fit), DownloadError, UsageError.
    """
    return Engine(load_pair(model, draft, LoadOptions(**options)))
