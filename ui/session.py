"""One process, one engine: who may use it when. Pages submit jobs; a single worker runs them one after another."""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from nsd_local.api import Engine
from nsd_local.errors import Cancelled, NsdError

from .choice import Choice
from .live import Live

log = logging.getLogger(__name__)
QUICK_S, CALM_S = 0.12, 1.0  # seconds between two updates of a page: at most ten a second
Report = Callable[[str, int, int], None]  # (what is being done, done, total); total 0 where it is not known


class MissingError(NsdError):
    """Files must be fetched first, and nobody has agreed to that yet. `size` in bytes, 0 if unknown."""

    exit_code = 3

    def __init__(self, what: str, size: int) -> None:
        super().__init__(what)
        self.size = size


class Opener(Protocol):
    """Fetches and loads what `choice` names; reports progress, and gives up when `cancelled` says so."""

    def __call__(self, choice: Choice, report: Report, cancelled: Callable[[], bool]) -> Engine: ...


@dataclass(frozen=True, slots=True)
class EngineState:
    """Where the engine stands, for the page's header and banners."""

    state: Literal["none", "opening", "ready", "missing", "failed"] = "none"
    what: str = ""  # what is being done, or what failed
    why: str = ""
    do: str = ""
    done: int = 0
    total: int = 0


class Job:
    """A request that waits for the engine, uses it, or has used it."""

    _ids = itertools.count(1)

    def __init__(self, tab: str, label: str, run: Callable[[Job, Engine], None], live: Live) -> None:
        self.id = next(self._ids)
        self.tab = tab
        self.label = label
        self.run = run
        self.live = live
        self.finished = threading.Event()
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        self._cancelled.set()

    def cancelled(self) -> bool:
        return self._cancelled.is_set()


class Session:
    """Owns the engine and the queue in front of it.

    Only the worker thread touches the engine, so two pages can never decode at once; everything that pages read is
    guarded by one lock.
    """

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._lock = threading.Condition()
        self._queue: deque[Job] = deque()
        self._running: Job | None = None
        self._wanted: Choice | None = None  # load this before the next job
        self._choice = Choice()
        self._engine: Engine | None = None
        self._closing = False
        self._stop_opening = threading.Event()
        self.state = EngineState()
        self._worker = threading.Thread(target=self._work, name="nsd-session", daemon=True)
        self._worker.start()

    @property
    def engine(self) -> Engine | None:
        """The loaded engine. Pages may ask it for names, never for tokens."""
        return self._engine

    @property
    def pace(self) -> float:
        """Seconds between two updates of a page. Where the engine needs every core, drawing takes time from it."""
        target = self._engine.contexts["target"] if self._engine else None
        if target is None or target.model.gpu_layers or target.plan.threads < (os.cpu_count() or 1):
            return QUICK_S
        return CALM_S

    def open(self, choice: Choice) -> None:
        """Load this pair as soon as the running answer is done."""
        with self._lock:
            self._wanted = choice
            self._stop_opening.set()  # whatever is being loaded is no longer wanted
            self._lock.notify_all()

    def halt(self) -> None:
        """Stop what is being fetched or loaded."""
        self._stop_opening.set()

    def submit(self, job: Job) -> Job:
        with self._lock:
            self._queue.append(job)
            self._lock.notify_all()
        return job

    def cancel(self, job: Job) -> None:
        """Stops a running job at its next round; a waiting one leaves the queue at once."""
        job.cancel()
        with self._lock:
            if job in self._queue:
                self._queue.remove(job)
                job.live.enter("stopped")
                job.finished.set()

    def cancel_tab(self, tab: str) -> None:
        """A page was closed: nobody waits for its answers."""
        for job in self.jobs():
            if job.tab == tab:
                self.cancel(job)

    def jobs(self) -> list[Job]:
        """The running job, then the waiting ones in order."""
        with self._lock:
            return ([self._running] if self._running else []) + list(self._queue)

    def ahead(self, job: Job) -> int:
        """How many jobs come before this one."""
        jobs = self.jobs()
        return jobs.index(job) if job in jobs else 0

    def close(self) -> None:
        """Stops everything and frees the engine."""
        with self._lock:
            self._closing = True
            self._stop_opening.set()
            self._lock.notify_all()
        for job in self.jobs():
            self.cancel(job)
        self._worker.join()

    def _work(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._closing or self._wanted or self._queue)
                if self._closing:
                    break
                wanted, self._wanted = self._wanted, None
                if wanted is None:
                    self._running = self._queue.popleft()
            if wanted is not None:
                self._load(wanted)
            elif self._running is not None:
                self._run(self._running)
                with self._lock:
                    job, self._running = self._running, None
                job.finished.set()
        self._unload()

    def _run(self, job: Job) -> None:
        if self._engine is None:  # the last attempt failed; what was missing may be there by now
            job.live.enter("loading")
            self._load(self._choice, job.cancelled)
        try:
            if self._engine is None:
                raise NsdError(self.state.what, self.state.why, self.state.do)
            job.run(job, self._engine)
        except Cancelled:
            job.live.enter("stopped")
        except NsdError as error:
            job.live.enter("failed", str(error))
        except Exception as error:  # the worker must outlive whatever goes wrong in one answer
            log.exception("an answer failed")
            job.live.enter("failed", f"An internal error: {type(error).__name__}: {error}. The next request can work.")
        if not job.live.ended:
            job.live.enter("stopped" if job.cancelled() else "done")

    def _load(self, choice: Choice, cancelled: Callable[[], bool] = lambda: False) -> None:
        self._choice = choice
        self._unload()
        with self._lock:
            if self._wanted is None and not self._closing:
                self._stop_opening.clear()
        self.state = EngineState("opening", "Loading the model")
        try:
            self._engine = self._opener(choice, self._report, lambda: self._stop_opening.is_set() or cancelled())
            self.state = EngineState("ready")
        except Cancelled as error:
            self.state = EngineState("none", str(error))
        except MissingError as error:
            self.state = EngineState("missing", error.what, total=error.size)
        except NsdError as error:
            self.state = EngineState("failed", error.what, error.why, error.do)
        except Exception as error:  # shown as a banner; the page stays usable
            log.exception("a model failed to load")
            self.state = EngineState("failed", f"The model cannot be loaded: {type(error).__name__}", str(error))

    def _report(self, what: str, done: int, total: int) -> None:
        if self._engine is not None:  # the engine measures itself on first use, within an answer
            if self._running is not None:
                self._running.live.enter("loading", what)
            return
        self.state = EngineState("opening", what, done=done, total=total)

    def _unload(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()
