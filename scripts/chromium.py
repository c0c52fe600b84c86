"""Finds a Chromium to drive, for the tests and the scripts that look at the page."""

from __future__ import annotations

import os
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Nothing of the browser's own may reach for the network while the tests watch what the page asks for.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find() -> str | None:
    """The path of an installed Chromium: `$NSD_CHROMIUM`, a system package, or Playwright's own download."""
    chosen = os.environ.get("NSD_CHROMIUM")
    if chosen:
        return chosen
    for path in filter(None, map(shutil.which, NAMES)):
        if subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0:
            return path
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if os.path.exists(own) else None


if __name__ == "__main__":
    print(find() or "")
