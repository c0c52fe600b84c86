"""The chat page in a real browser: what a person does, and what they see."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.ui.conftest import Opens, Server


def test_first_load_is_ready_and_says_what_is_loaded(server: Server, open_page: Opens) -> None:
    chat = open_page(server)
    expect(chat.page).to_have_title("nsd-local")
    expect(chat.page.locator(".n-chip")).to_contain_text("target")
    expect(chat.input).to_be_focused()


def test_answer_streams_and_is_kept_whole(server: Server, open_page: Opens) -> None:
    chat = open_page(server)
    chat.new()
    chat.ask("Tell me something.")
    expect(chat.questions).to_have_text("Tell me something.")
    expect(chat.answers).to_have_count(1)
    expect(chat.page.locator("#m-count")).to_contain_text("40 in")
    expect(chat.page.locator("#m-average")).to_have_text(re.compile(r"\d"))


def test_answer_grows_while_it_is_written(endless: Server, open_page: Opens) -> None:
    chat = open_page(endless)
    chat.new()
    chat.say("Go on for long.")
    expect(chat.stop_button).to_be_visible()
    expect(chat.answers.last).not_to_have_text("…")
    first = len(chat.answers.last.inner_text())
    chat.page.wait_for_function(
        "n => document.querySelector('#transcript .message.bot:last-of-type').innerText.length > n + 20", arg=first
    )
    chat.stop_button.click()
    chat.rest()


def test_stop_in_the_middle_then_ask_again(endless: Server, open_page: Opens) -> None:
    chat = open_page(endless)
    chat.new()
    chat.say("Go on for long.")
    expect(chat.status).to_contain_text("Writing")
    chat.stop_button.click()
    chat.rest()
    expect(chat.status).to_have_text("Stopped")
    stopped = chat.answers.first.inner_text()
    chat.say("And once more.")
    expect(chat.questions).to_have_count(2)
    expect(chat.status).to_contain_text("Writing")
    chat.stop_button.click()
    chat.rest()
    assert chat.answers.first.inner_text() == stopped


def test_retry_replaces_the_answer(server: Server, open_page: Opens) -> None:
    chat = open_page(server)
    chat.new()
    chat.ask("Roll the dice.")
    before = chat.answers.inner_text()
    chat.transcript.get_by_role("button", name="Retry").click()
    expect(chat.answers).not_to_have_text(before)
    chat.rest()
    expect(chat.answers).to_have_count(1)
    expect(chat.questions).to_have_text("Roll the dice.")


def test_edit_asks_the_changed_question(server: Server, open_page: Opens) -> None:
    chat = open_page(server)
    chat.new()
    chat.ask("first <b>question</b>")
    chat.ask("second question")
    chat.transcript.get_by_role("button", name="Edit").first.click()
    box = chat.transcript.locator("textarea")
    assert box.input_value().replace("\u2060", "") == "first <b>question</b>"
    box.fill("another <i>question</i>")
    chat.transcript.get_by_role("button", name="Submit").click()
    expect(chat.questions).to_have_count(1)
    expect(chat.questions).to_contain_text("another <")
    chat.rest()
    expect(chat.answers).to_have_count(1)


def test_undo_gives_the_message_back(server: Server, open_page: Opens) -> None:
    chat = open_page(server)
    chat.new()
    chat.ask("one")
    chat.ask("two")
    chat.transcript.get_by_role("button", name="Undo").last.click()
    expect(chat.questions).to_have_count(1)
    expect(chat.input).to_have_value("two")
    chat.rest()


def test_conversations_are_kept_renamed_exported_and_deleted(server: Server, open_page: Opens) -> None:
    chat = open_page(server)
    chat.new()
    chat.ask("apples and pears")
    apples = chat.answers.inner_text()
    chat.new()
    chat.ask("bread and butter")
    expect(chat.chats.first).to_have_text("bread and butter")
    chat.chats.filter(has_text="apples and pears").click()
    expect(chat.questions).to_have_text("apples and pears")
    assert chat.answers.inner_text() == apples

    chat.page.get_by_role("button", name="This conversation").click()
    title = chat.page.locator("#chat-title textarea, #chat-title input")
    title.fill("Fruit")
    title.press("Enter")
    expect(chat.chats.filter(has_text="Fruit")).to_have_count(1)
    with chat.page.expect_download() as download:
        chat.page.locator("#export-md").click()
    assert download.value.suggested_filename == "fruit.md"
    text = download.value.path().read_text("utf-8")
    assert text.startswith("# Fruit")
    assert "apples and pears" in text
    with chat.page.expect_download() as download:
        chat.page.locator("#export-json").click()
    assert '"statistics"' in download.value.path().read_text("utf-8")

    chat.page.locator("#delete-chat").click()
    chat.page.locator("#delete-yes").click()
    expect(chat.chats.filter(has_text="Fruit")).to_have_count(0)
    expect(chat.questions.filter(has_text="apples")).to_have_count(0)


def test_reload_keeps_everything(server: Server, open_page: Opens) -> None:
    chat = open_page(server)
    chat.new()
    chat.ask("keep this")
    kept = chat.answers.inner_text()
    chat.show("Tokens")
    tokens = chat.page.locator(".turn .tokens .t:not(.t-dropped)")
    expect(tokens).to_have_count(40)
    chat.page.reload()
    expect(tokens).to_have_count(40)
    chat.show("Text")
    expect(chat.questions).to_have_text("keep this")
    expect(chat.answers).to_have_text(kept, use_inner_text=True)  # a <br> is a line in both


def test_two_tabs_at_once_both_get_right_answers(endless: Server, open_page: Opens) -> None:
    one = open_page(endless)
    other = open_page(endless, context=one.page.context)
    one.new()
    other.new()
    one.say("question of the first tab")
    expect(one.status).to_contain_text("Writing")
    other.say("question of the second tab")
    expect(other.status).to_contain_text("Waiting: 1 answer before this one")
    one.stop_button.click()
    one.rest()
    expect(other.status).to_contain_text("Writing")
    other.stop_button.click()
    other.rest()
    expect(one.questions).to_have_text("question of the first tab")
    expect(other.questions).to_have_text("question of the second tab")
    expect(one.answers).to_have_count(1)
    expect(other.answers).to_have_count(1)


def test_a_closed_tab_stops_its_answer(endless: Server, open_page: Opens) -> None:
    one = open_page(endless)
    other = open_page(endless, context=one.page.context)
    one.new()
    other.new()
    one.say("nobody will wait for this")
    expect(one.status).to_contain_text("Writing")
    other.say("but for this")
    expect(other.status).to_contain_text("Waiting")
    one.page.close()
    expect(other.status).to_contain_text("Writing")
    other.stop_button.click()
    other.rest()


def test_another_conversation_while_one_is_written(endless: Server, open_page: Opens) -> None:
    chat = open_page(endless)
    chat.new()
    chat.say("a long story")
    expect(chat.status).to_contain_text("Writing")
    chat.new()
    expect(chat.questions).to_have_count(0)
    chat.chats.filter(has_text="a long story").first.click()
    expect(chat.questions).to_have_text("a long story")
    expect(chat.status).to_contain_text("Writing")
    chat.stop_button.click()
    chat.rest()
