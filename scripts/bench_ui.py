#!/usr/bin/env python3
"""What the chat page costs: the same answer with a browser looking on, and with nobody looking, in turns.

    python scripts/bench_ui.py [--model M --draft D] [--tokens 160] [--repeats 9]

Both go through the same engine and the same worker thread. Time is wall time from the end of the first round to the
end of the last one, so whatever the page takes from the decoder counts. The browser runs on this machine too.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import chromium
from nsd_local.ui.app import App
from nsd_local.ui.choice import Choice
from nsd_local.ui.launch import serve
from nsd_local.ui.live import Live
from nsd_local.ui.session import Job, Report
from playwright.sync_api import Page, sync_playwright

from nsd_local.api import Engine
from nsd_local.decoding.events import Event, Step
from nsd_local.loading import LoadOptions, load_pair

PROMPT = "Write a Python class for a binary search tree with insert, search and delete, with docstrings."
GOAL = 0.97


class Timed(Engine):
    """An engine that notes how many tokens each answer had and how long they took."""

    speed = 0.0  # tokens per second of the last answer, its first round not counted

    def stream(self, *args: Any, **more: Any) -> Iterator[Event]:
        start, tokens = 0.0, 0
        for event in super().stream(*args, **more):
            if isinstance(event, Step):
                if not start:
                    start = perf_counter()
                else:
                    tokens += len(event.round.tokens)
                    self.speed = tokens / (perf_counter() - start)
            yield event


def main() -> int:
    options = read_arguments()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        choice = Choice(options.model, options.draft, LoadOptions(threads=options.threads, calibrate=False))
        with App(choice, folder=Path(folder), opener=open_timed) as app:
            app.memory.change(max_tokens=options.tokens, seed=7, k=options.k)
            url = serve(app)
            browser = playwright.chromium.launch(executable_path=options.chromium, args=chromium.ARGUMENTS)
            page = browser.new_page(viewport={"width": 1280, "height": 860})
            while app.session.state.state == "opening" or app.session.engine is None:
                page.wait_for_timeout(200)
            met = run(app, page, url, options.repeats)
            browser.close()
    return 0 if met else 1


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model")
    parser.add_argument("--draft")
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--k", default="4", help="Draft tokens: fixed, so that both sides do the same.")
    parser.add_argument("--chromium", default=chromium.find(), help="Path of a Chromium.", metavar="PATH")
    return parser.parse_args()


def open_timed(choice: Choice, report: Report, cancelled: Callable[[], bool]) -> Engine:
    return Timed(load_pair(choice.model, choice.draft, choice.options))


def run(app: App, page: Page, url: str, repeats: int) -> bool:
    """Alternates between nobody looking, the text and the tokens; prints all speeds. Was the goal met?"""
    sides: dict[str, Callable[[], float]] = {
        "alone": lambda: alone(app, page),
        "text": lambda: watched(app, page, url, "text"),
        "tokens": lambda: watched(app, page, url, "tokens"),
    }
    sides["alone"]()  # warm-up: kernels, caches, the browser
    sides["text"]()
    speeds: dict[str, list[float]] = {name: [] for name in sides}
    for i in range(repeats):
        names = list(sides)
        for name in names[i % 3 :] + names[: i % 3]:
            speeds[name].append(sides[name]())
        print("  ".join(f"{name} {speeds[name][-1]:6.2f}" for name in sides), flush=True)
    print(f"{'':8}{'median tok/s':>14}{'of alone (median of pairs)':>28}")
    worst = 1.0
    for name, values in speeds.items():
        ratio = statistics.median(value / bare for value, bare in zip(values, speeds["alone"], strict=True))
        print(f"{name:8}{statistics.median(values):14.2f}{ratio:28.3f}")
        worst = min(worst, ratio)
    print(f"goal {GOAL}: {'met' if worst >= GOAL else 'missed'} ({worst:.3f})")
    return worst >= GOAL


def speed(app: App) -> float:
    engine = app.session.engine
    return engine.speed if isinstance(engine, Timed) else 0.0


def alone(app: App, page: Page) -> float:
    """The answer as `generate` makes it: events are read and dropped, no page is open."""
    page.goto("about:blank")

    def answer(job: Job, engine: Engine) -> None:
        for _ in engine.stream(PROMPT, app.memory.now.settings()):
            pass

    job = app.session.submit(Job("bench", "bench", answer, Live()))
    job.finished.wait()
    return speed(app)


def watched(app: App, page: Page, url: str, view: str) -> float:
    """The same answer on an open page that shows it as text or as tokens while it is written."""
    page.goto(url)
    page.evaluate("view => localStorage.setItem('nsd-view', view)", view)
    page.goto(url)
    page.wait_for_function("document.body.dataset.version > 0")
    page.get_by_role("button", name="New conversation").click()
    page.wait_for_function("document.body.dataset.version > 1")
    page.fill("#ask textarea", PROMPT)
    page.press("#ask textarea", "Enter")
    page.wait_for_function("document.body.dataset.version > 2")
    for job in app.session.jobs():
        job.finished.wait()  # Playwright rests meanwhile
    page.wait_for_function("!document.body.dataset.busy")
    return speed(app)


if __name__ == "__main__":
    sys.exit(main())
