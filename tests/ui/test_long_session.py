"""A hundred answers in one session: the server's memory stays flat and the page stays usable."""

from __future__ import annotations

from pathlib import Path

import psutil
from playwright.sync_api import expect

from tests.ui.conftest import Models, Opens, start

ANSWERS = 100
WARM = 20  # by then every cache that exists once is filled
GROWTH = 1.03  # of the resident memory after the warm-up; the conversation itself grows by a few hundred kB


def test_a_hundred_answers_leave_memory_flat(tmp_path: Path, models: Models, open_page: Opens) -> None:
    server = start(tmp_path / "app", *models, max_tokens=24, k="4")
    process = psutil.Process(server.process.pid)
    chat = open_page(server)
    memory = []
    for i in range(ANSWERS):
        if i == 60:
            chat.show("Text")
        if i % 10 == 0:
            chat.new()  # ten conversations of ten turns
        if i == 50:
            chat.show("Tokens")
        chat.ask(f"question {i}")
        memory.append(process.memory_info().rss)
    after_warm_up, at_the_end = min(memory[WARM : WARM + 10]), min(memory[-10:])
    assert at_the_end <= GROWTH * after_warm_up, f"{after_warm_up:,} -> {at_the_end:,} bytes"
    expect(chat.answers).to_have_count(10)
    expect(chat.chats).to_have_count(10)
    chat.page.close()
    server.stop()
