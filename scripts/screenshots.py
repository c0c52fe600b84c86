#!/usr/bin/env python3
"""Pictures of the chat page for the README: chat, tokens, race and doctor, wide and narrow, light and dark.

python scripts/screenshots.py [--folder docs/screenshots] [--model M --draft D] [--chromium PATH]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import chromium
from nsd_local.ui.app import App
from nsd_local.ui.choice import Choice
from nsd_local.ui.launch import serve
from playwright.sync_api import Browser, Page, sync_playwright

from nsd_local.loading import LoadOptions

REPOSITORY = Path(__file__).resolve().parents[1]
QUESTIONS = [
    "How fast is binary search, and why? Give the recurrence as a formula.",
    "Write it in Python, with a docstring.",
]
WIDTHS = {1280: 860, 400: 860}
SCHEMES = ("light", "dark")
PATIENCE_MS = 900_000  # an answer may take minutes on a slow machine
LARGEST = 200_000  # bytes of a picture


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "docs" / "screenshots")
    parser.add_argument("--model")
    parser.add_argument("--draft")
    parser.add_argument("--tokens", type=int, default=220)
    parser.add_argument("--race-tokens", type=int, default=160)
    parser.add_argument("--chromium", default=chromium.find(), help="Path of a Chromium.", metavar="PATH")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        choice = Choice(options.model, options.draft, LoadOptions(calibrate=False))
        with App(choice, folder=Path(home)) as app:
            app.memory.change(max_tokens=options.tokens, seed=3, k="4", system="Answer briefly.")
            url = serve(app)
            browser = playwright.chromium.launch(executable_path=options.chromium, args=chromium.ARGUMENTS)
            prepare(open_page(browser, url, 1280, "light"), options.race_tokens)
            for width in WIDTHS:
                for scheme in SCHEMES:
                    take(open_page(browser, url, width, scheme), options.folder, f"{width}-{scheme}")
            browser.close()
    large = [path.name for path in options.folder.glob("*.png") if path.stat().st_size > LARGEST]
    if large:
        print(f"larger than {LARGEST:,} bytes: {', '.join(large)}", file=sys.stderr)
    return 1 if large else 0


def open_page(browser: Browser, url: str, width: int, scheme: str) -> Page:
    page = browser.new_page(
        viewport={"width": width, "height": WIDTHS[width]},
        color_scheme="dark" if scheme == "dark" else "light",
        reduced_motion="reduce",
    )
    page.set_default_timeout(PATIENCE_MS)
    page.goto(url)
    page.wait_for_selector(".n-chip[data-state=ready]")
    page.wait_for_function("document.body.dataset.version > 0")
    return page


def prepare(page: Page, race_tokens: int) -> None:
    """A conversation and a race, which every later page finds."""
    for question in QUESTIONS:
        version = page.evaluate("Number(document.body.dataset.version)")
        page.fill("#ask textarea", question)
        page.press("#ask textarea", "Enter")
        page.wait_for_function("n => document.body.dataset.version > n && !document.body.dataset.busy", arg=version)
    page.get_by_role("tab", name="Race").click()
    tokens = page.locator("#race-tokens input[type=number]")
    tokens.fill(str(race_tokens))
    tokens.press("Tab")
    page.get_by_role("button", name="Start the race").click()
    page.wait_for_selector(".race-result")
    page.close()


def take(page: Page, folder: Path, name: str) -> None:
    page.wait_for_selector("#transcript .message.bot")
    shoot(page, folder / f"chat-{name}.png")
    page.locator(".n-switch").get_by_text("Tokens").click()
    page.get_by_label("Rejected drafts").check()
    page.wait_for_selector(".turn .tokens .t")
    token = page.locator(".turn .t-nucleus").last
    page.locator(".turns").evaluate("e => { e.scrollTop = e.scrollHeight }")
    token.hover()
    shoot(page, folder / f"tokens-{name}.png")
    page.mouse.move(2, 2)
    page.get_by_role("tab", name="Race").click()
    page.locator("#race-end").click()
    page.locator(".race-bar").evaluate("e => e.scrollIntoView()")
    page.evaluate("scrollBy(0, -70)")
    shoot(page, folder / f"race-{name}.png")
    page.get_by_role("tab", name="Doctor").click()
    page.wait_for_selector(".n-doctor table")
    page.evaluate("scrollTo(0, 0)")
    page.locator("#doctor-report td").evaluate_all(
        "(cells, [from, to]) => cells.forEach(cell => { cell.textContent = cell.textContent.replaceAll(from, to) })",
        [str(REPOSITORY), "~/nsd-local"],
    )
    shoot(page, folder / f"doctor-{name}.png")
    page.close()


def shoot(page: Page, path: Path) -> None:
    page.wait_for_function("document.fonts.status === 'loaded'")
    page.wait_for_timeout(500)  # lets Gradio's own fades end
    page.screenshot(path=path)
    print(path.name, f"{path.stat().st_size:,} bytes", flush=True)


if __name__ == "__main__":
    sys.exit(main())
