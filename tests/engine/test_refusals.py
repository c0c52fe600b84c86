"""What would end the process, or hang it, is refused: closed models, too many threads, strange ids, strange paths."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nsd_local.catalog.resolve import resolve
from nsd_local.engine import library
from nsd_local.engine.context import Context
from nsd_local.engine.gguf_file import read_gguf
from nsd_local.engine.model import Model
from nsd_local.engine.options import ContextOptions, ModelOptions
from nsd_local.engine.quantize import quantize
from nsd_local.errors import DecodeError, ModelError, UsageError


def test_a_closed_model_gives_no_texts(tiny_target: Path) -> None:
    model = Model.load(tiny_target)
    model.piece(5)
    words = model.vocabulary
    model.close()
    asked: list[Callable[[], object]] = [
        lambda: model.tokenize("hi", special=True, add_bos=True),
        lambda: model.piece(5),
        lambda: model.piece(6),
        lambda: words.text(5),
        words.raw_texts,
        words.spell_out,
        lambda: model.is_eog(5),
    ]
    for ask in asked:
        with pytest.raises(ModelError, match="is closed"):
            ask()


def test_more_threads_than_the_machine_can_use(tiny_target: Path, tmp_path: Path) -> None:
    for threads in (513, 100_000, 10**30):
        with pytest.raises(UsageError, match=r"this machine has \d+ cores|cores\. "):
            ContextOptions(threads=threads)
        with pytest.raises(UsageError, match="too many"):
            quantize(tiny_target, tmp_path / "q.gguf", "Q8_0", threads=threads)
    wrong: list[Any] = [2.5, True, "2", 0]
    for threads in wrong:
        with pytest.raises(UsageError, match=r"(?i)threads must be"):
            ContextOptions(threads=threads)
    of_numpy: Any = np.int64(1)
    assert type(ContextOptions(threads=of_numpy).threads) is int


@pytest.mark.parametrize(
    "tokens",
    [
        [2**31],
        [1, 2**32 + 1],
        [2**63],
        [2**70],
        [-1],
        [-(2**40)],
        [1.0],
        [1, 2.5],
        ["1"],
        [None],
        [True],
        [[1, 2]],
        [[1], 2],
    ],
    ids=str,
)
def test_what_is_no_token_id_is_refused(make, tokens: list) -> None:
    context = make(n_ctx=256)
    context.evaluate([1, 2, 3])
    with pytest.raises(DecodeError):
        context.evaluate(tokens, rows=1)
    assert context.tokens == [1, 2, 3]
    context.evaluate(np.array([4, 5], dtype=np.int64), rows=1)
    context.evaluate(np.array([4, 5], dtype=np.uint8), rows=1)


def test_names_that_are_too_long_or_impossible() -> None:
    for spec in ("a" * 5_000, "/" + "a" * 5_000, "a" * 5_000 + ".gguf", "./a\0b", "~nobody-of-this-name/a.gguf"):
        with pytest.raises(ModelError, match="There is no file") as caught:
            resolve(spec, offline=True)
        assert len(str(caught.value)) < 400
        with pytest.raises(ModelError):
            read_gguf(Path(spec))
    for spec in ("", "  "):
        with pytest.raises(UsageError, match="is empty"):
            resolve(spec, offline=True)


@pytest.mark.skipif(os.name == "nt", reason="the pipe is made by os.mkfifo, which only POSIX has")
def test_what_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "loop.gguf").symlink_to("loop.gguf")
    (tmp_path / "lost.gguf").symlink_to("nothing.gguf")
    for path, why in (
        (tmp_path / "pipe.gguf", "is not a regular file"),
        (Path("/dev/zero"), "is not a regular file"),
        (Path("/dev/null"), "is not a regular file"),
        (tmp_path / "loop.gguf", "symbolic link loop"),
        (tmp_path / "lost.gguf", "link to nothing"),
    ):
        for act in (read_gguf, lambda path: resolve(str(path), offline=True)):
            with pytest.raises(ModelError, match=why):
                act(path)


@pytest.mark.skipif(os.name == "nt", reason="the signal is sent by signal.pthread_kill, which only POSIX has")
def test_an_interrupt_within_llama_cpp_comes_out(make: Callable[..., Context], monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal arrives while llama.cpp computes, so Python raises on its way into the callback."""
    lost: list[object] = []
    monkeypatch.setattr("nsd_local.engine.abort._INTERVAL", 0.0)
    monkeypatch.setattr("sys.unraisablehook", lost.append)
    context = make(n_ctx=8192, n_batch=4096)
    tokens = np.random.default_rng(0).integers(0, 270, 8000).tolist()
    before, main = signal.getsignal(signal.SIGINT), threading.main_thread().ident
    for _ in range(20):
        context.clear()
        asked = threading.Event()

        def strike(asked: threading.Event = asked) -> None:
            asked.wait()
            signal.pthread_kill(main, signal.SIGINT)

        striker = threading.Thread(target=strike)
        striker.start()

        def never(asked: threading.Event = asked) -> bool:
            asked.set()
            return False

        with pytest.raises(KeyboardInterrupt):
            context.evaluate_abortable(tokens[:4096], never)
        striker.join()
        assert signal.getsignal(signal.SIGINT) is before
        context.settle()
        assert context.tokens == tokens[: len(context.tokens)]
    assert lost == []


class Striking(deque[library.LogLine]):
    """A log at whose next line Ctrl-C is pressed: within a callback of llama.cpp."""

    struck = False

    def append(self, line: library.LogLine) -> None:
        super().append(line)
        if not self.struck:
            self.struck = True
            signal.raise_signal(signal.SIGINT)


def test_an_interrupt_while_a_model_is_loaded_comes_out(tiny_target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[object] = []
    shares: list[float] = []
    monkeypatch.setattr("sys.unraisablehook", lost.append)
    monkeypatch.setattr(library._Library, "log", Striking(maxlen=500))
    with pytest.raises(KeyboardInterrupt):
        Model.load(tiny_target, ModelOptions(progress=shares.append))
    assert len(shares) <= 1, "the load was stopped"
    with Model.load(tiny_target) as model:
        monkeypatch.setattr(library._Library, "log", Striking(maxlen=500))
        with pytest.raises(KeyboardInterrupt):
            Context(model, ContextOptions(n_ctx=256))
        Context(model, ContextOptions(n_ctx=256)).close()
    assert lost == []
