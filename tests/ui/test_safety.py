"""What people and models write is shown, never executed, and never reaches for the network."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from nsd_local.ui.answers import Answers, Record
from playwright.sync_api import expect

from nsd_local.chat.conversation import Conversation
from nsd_local.chat.store import Store
from nsd_local.chat.turn import Answer, Turn
from nsd_local.decoding.records import Round, Times, Token
from tests.ui.conftest import Models, Opens, Server, start

EVIL = (
    "<script>window.hacked = 1</script> <img src=x onerror='window.hacked = 2'> <b>bold?</b> <div onclick=1>div</div>\n"
    "![picture](http://example.com/leak.png) [link](javascript:alert(1)) <a href='javascript:alert(2)'>a</a>\n"
    "<iframe src='http://example.com/'></iframe> <style>body{display:none}</style> <p>para</p> <span>span</span> "
    "`<i>code</i>`\n\n"
    "```html\n<script>window.hacked = 3</script>\n```\n\n"
    "```mermaid\ngraph TD; A[<img src=http://example.com/m.png>] --> B\n```\n\n"
    "emoji 🙂👩‍💻 中文字 日本語 한국어 ünïcödé and $a<b$ and \\(x<y\\)\n\n"
    "- ```\n  in a list\n  ```\n<b>after a list</b>\n\n"
    "> ```\n> in a quote\n<b>after a quote</b>\n\n"
    "```python\n" + "x = " + " + ".join(f"value_{i}" for i in range(80)) + "\n```\n"
)
SHOWN = [
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 2'>",
    "<b>bold?</b>",
    "<iframe src='http://example.com/'></iframe>",
    "<style>body{display:none}</style>",
    "<p>para</p> <span>span</span>",
    "<i>code</i>",
    "<script>window.hacked = 3</script>",
    "🙂👩‍💻 中文字 日本語 한국어 ünïcödé",
    "<b>after a list</b>",
    "<b>after a quote</b>",
    "value_79",
]


def token(i: int, text: str) -> Token:
    return Token(i, text, "ratio", 0.5, 0.5, 1, 0.1, 0.0, 0)


@pytest.fixture(scope="module")
def seeded(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An app with a conversation whose answer a hostile model wrote."""
    folder = tmp_path_factory.mktemp("ui-evil")
    conversation = Conversation(title="<img src=x onerror='window.hacked = 4'>")
    conversation.turns = [Turn(EVIL, Answer(EVIL, model="evil"))]
    Store(folder / "conversations").save(conversation)
    tokens = tuple(token(i, piece) for i, piece in enumerate(EVIL.split(" ")))
    rounds = (Round(0, 1, 0, "<b>why</b>", "", (), tokens, 0, (), (), (), None, None, Times()),)
    Answers(folder / "answers").keep(conversation.id, 0, EVIL, Record(rounds, {}, "", None))
    running = start(folder, *models, max_tokens=8)
    yield running
    running.stop()


def test_hostile_text_is_shown_and_not_executed(seeded: Server, open_page: Opens) -> None:
    chat = open_page(seeded)
    expect(chat.answers).to_have_count(1)
    for where in (chat.questions, chat.answers):
        expect(where).to_contain_text("value_79")
        text = where.inner_text().replace("\u2060", "")
        for part in SHOWN:
            assert part in text, part
        for selector in ("script", "iframe", "style", "img", "b", "div[onclick]", ".mermaid svg"):
            assert where.locator(f".md {selector}").count() == 0, selector
        assert where.locator("a[href^='javascript']").count() == 0
    expect(chat.answers.locator(".katex").first).to_be_attached()
    chat.show("Tokens")
    expect(chat.page.locator(".turn .tokens")).to_contain_text("<script>window.hacked")
    assert chat.page.locator(".turn :is(script, img, iframe, b)").count() == 0
    assert chat.page.evaluate("window.hacked") is None
    expect(chat.chats.first).to_contain_text("<img src=x")
    assert chat.page.locator("#chats img").count() == 0


def test_long_lines_do_not_widen_the_page(seeded: Server, open_page: Opens) -> None:
    for width in (1280, 400):
        chat = open_page(seeded, viewport={"width": width, "height": 800})
        expect(chat.answers).to_have_count(1)
        assert chat.page.evaluate("document.documentElement.scrollWidth") <= width


def test_copied_text_is_what_was_written(seeded: Server, open_page: Opens) -> None:
    chat = open_page(seeded, permissions=["clipboard-read", "clipboard-write"])
    chat.transcript.get_by_role("button", name="Copy message").last.click()
    copied = chat.page.evaluate("navigator.clipboard.readText()")
    assert "\u2060" not in copied
    assert "<script>window.hacked = 1</script>" in copied
    assert "![picture](http://example.com/leak.png)" in copied


def test_what_a_person_types_is_shown_and_not_executed(seeded: Server, open_page: Opens) -> None:
    chat = open_page(seeded)
    chat.new()
    chat.ask("<script>window.hacked = 5</script> <b>x</b> 🙂 中文")
    text = chat.questions.inner_text().replace("\u2060", "")
    assert text == "<script>window.hacked = 5</script> <b>x</b> 🙂 中文"
    assert chat.page.evaluate("window.hacked") is None


def fetch(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_page_is_ours_and_names_no_other_site(seeded: Server) -> None:
    status, html = fetch(seeded.url)
    assert status == 200
    head = html.split("<script>window.gradio_config")[0]
    assert head.count("<title>nsd-local</title>") == 1
    for foreign in ("og:", "twitter:", "Click to try", "gradio.app", "githubusercontent"):
        assert foreign not in head


def test_a_foreign_name_of_this_machine_is_refused(seeded: Server) -> None:
    port = seeded.url.rstrip("/").rsplit(":", 1)[1]
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", "localhost"):
        assert fetch(seeded.url, Host=host)[0] == 200, host
    for host in (f"evil.example:{port}", "localhost.evil.example", "127.0.0.1.evil.example"):
        assert fetch(seeded.url, Host=host) == (400, "Invalid host header"), host


def test_every_response_forbids_foreign_content(seeded: Server, open_page: Opens) -> None:
    chat = open_page(seeded)
    response = chat.page.request.get(seeded.url)
    policy = response.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "connect-src 'self'" in policy
