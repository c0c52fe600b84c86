"""The page with the real default pair."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from nsd_local.catalog import load_catalog, locate
from tests.ui.conftest import Opens, start

pytestmark = pytest.mark.real


def test_a_right_answer_with_kinds_from_the_real_pair(tmp_path: Path, open_page: Opens) -> None:
    pair = load_catalog().default
    target, draft = locate(pair.target), locate(pair.draft)
    if target is None or draft is None:
        pytest.skip("the default pair is not on this machine: nsd-local pull")
    server = start(tmp_path / "app", target.path, draft.path, max_tokens=48, k="3", temperature=0.0)
    chat = open_page(server)
    chat.ask("What is the capital of France? Answer in one sentence.")
    expect(chat.answers).to_contain_text("Paris")
    chat.show("Tokens")
    expect(chat.page.locator(".turn .t-ratio").first).to_be_visible()
    expect(chat.page.locator("#m-kept")).to_have_text(re.compile(r"\d+ % of \d+"))
    chat.page.close()
    server.stop()
