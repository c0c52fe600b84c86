"""The tokens view: kinds, legend, what hovering and focusing tell, rejected drafts, meters."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.ui.conftest import Opens, Server

SHOWN = ".turn .tokens .t:not(.t-dropped)"


def test_kinds_and_legend(server: Server, open_page: Opens) -> None:
    chat = open_page(server)
    chat.new()
    chat.ask("colours, please")
    chat.show("Tokens")
    tokens = chat.page.locator(SHOWN)
    expect(tokens).to_have_count(40)
    kinds = {
        name for name in ("ratio", "nucleus", "recovered", "bonus") if chat.page.locator(f".turn .t-{name}").count()
    }
    assert {"ratio", "recovered"} <= kinds  # a draft that agrees often but not always
    expect(chat.page.locator(".n-legend")).to_be_visible()
    for name in ("ratio", "nucleus", "recovered", "bonus", "plain"):
        expect(chat.page.locator(f".n-legend .t-{name}")).to_be_visible()
    decorations = {
        name: chat.page.locator(f".n-legend .t-{name}").evaluate("e => getComputedStyle(e).textDecorationStyle")
        for name in ("ratio", "nucleus", "recovered", "bonus", "plain")
    }
    assert len(set(decorations.values())) == 5, f"no two kinds may be told apart by colour alone: {decorations}"


def test_hover_and_keyboard_tell_about_a_token(server: Server, open_page: Opens) -> None:
    chat = open_page(server)
    chat.new()
    chat.ask("tell me about tokens")
    chat.show("Tokens")
    tip = chat.page.locator("#n-tip")
    expect(chat.page.locator(".turn-note")).to_be_visible()  # the finished answer is shown
    chat.page.locator(".turn .t-ratio").first.hover()
    expect(tip).to_be_visible()
    for name in ("p, target", "q, draft", "rank in target", "divergence", "deviation", "round"):
        expect(tip).to_contain_text(name)
    expect(tip).to_contain_text("kept by the ratio test")
    chat.page.mouse.move(5, 5)
    expect(tip).to_be_hidden()

    first = chat.page.locator(".turn .tokens .t[tabindex='0']").first
    first.focus()
    expect(tip).to_be_visible()
    before = tip.inner_text()
    chat.page.keyboard.press("End")
    expect(tip).not_to_have_text(before)
    chat.page.keyboard.press("Escape")
    expect(tip).to_be_hidden()


def test_rejected_drafts_are_struck_through_where_they_were_dropped(server: Server, open_page: Opens) -> None:
    chat = open_page(server)
    chat.new()
    chat.ask("what was dropped?")
    chat.show("Tokens")
    dropped = chat.page.locator(".turn .t-dropped")
    expect(dropped.first).to_be_hidden()
    chat.page.get_by_label("Rejected drafts").check()
    expect(dropped.first).to_be_visible()
    assert dropped.first.evaluate("e => getComputedStyle(e).textDecorationLine") == "line-through"
    # What follows the dropped drafts of a round is the token that was drawn in their place.
    last = dropped.first.evaluate(
        "e => { do e = e.nextElementSibling; while (e.matches('.t-dropped')); return e.className }"
    )
    assert "t-recovered" in last


def test_switch_between_text_and_tokens_while_it_streams(endless: Server, open_page: Opens) -> None:
    chat = open_page(endless)
    chat.new()
    chat.say("a long answer")
    expect(chat.status).to_contain_text("Writing")
    chat.show("Tokens")
    live = chat.page.locator(".turn[data-live] .t")
    expect(live.nth(20)).to_be_attached()
    chat.show("Text")
    expect(chat.answers.last).to_be_visible()
    chat.show("Tokens")
    seen = live.count()
    expect(live.nth(seen + 5)).to_be_attached()
    chat.stop_button.click()
    chat.rest()
    expect(chat.page.locator(".turn[data-live]")).to_have_count(0)
    expect(chat.page.locator(".turn .tokens")).to_have_count(1)


def test_meters_add_up(server: Server, open_page: Opens) -> None:
    chat = open_page(server)
    chat.new()
    chat.ask("measure this")
    page = chat.page
    expect(page.locator("#m-count")).to_contain_text("40 in")
    expect(page.locator("#m-tau")).to_have_text(re.compile(r"^\d\.\d\d$"))
    expect(page.locator("#m-kept")).to_contain_text("% of")
    expect(page.locator("#m-k")).to_have_text(re.compile(r"^\d$"))
    expect(page.locator("#m-deviation")).to_have_text(re.compile(r"^\d+\.\d{3}$"))
    shares = page.locator(".m-panel .m-list").first.locator("b").all_inner_texts()
    assert abs(sum(float(share.split()[0]) for share in shares) - 100) <= 2.5  # each is rounded
