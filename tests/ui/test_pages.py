"""Race, doctor, banners, controls, and what holds on every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from nsd_local.ui import doctor_page
from playwright.sync_api import Browser, Page, expect

from tests.ui.conftest import PATIENCE_MS, Models, Opens, Server, Watch, start


def go(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name).click()


def race(page: Page) -> None:
    go(page, "Race")
    tokens = page.locator("#race-tokens input[type=number]")
    tokens.fill("32")
    tokens.press("Tab")
    page.get_by_role("button", name="Start the race").click()
    expect(page.locator(".race-result")).to_be_visible()


def test_race_runs_and_replays(server: Server, open_page: Opens) -> None:
    chat = open_page(server)
    page = chat.page
    race(page)
    expect(page.locator(".race-heading")).to_contain_text("ran in turn")
    expect(page.locator(".lane")).to_have_count(3)
    rows = page.locator(".race-result tbody tr")
    expect(rows).to_have_count(3)
    for i in range(3):
        expect(rows.nth(i).locator("td").nth(2)).to_have_text("32")
    expect(rows.first.locator("td").nth(1)).to_have_text("1.00")
    page.get_by_role("button", name="Show the end").click()
    for i in range(3):
        expect(page.locator(".lane").nth(i).locator(".t:not(.t-dropped)")).to_have_count(32)
    expect(page.locator(".lane").first.locator(".t-plain")).to_have_count(32)
    go(page, "Chat")
    chat.new()
    chat.ask("How fast is this?")
    expect(page.locator("#m-origin")).to_contain_text("measured in a race")
    expect(page.locator("#m-ratio")).to_have_text(re.compile(r"\d"))


def test_doctor_tells_about_the_machine(server: Server, open_page: Opens) -> None:
    page = open_page(server).page
    go(page, "Doctor")
    for name in ("llama.cpp", "memory", "Loaded target", "Loaded draft"):
        expect(page.locator("#doctor-report")).to_contain_text(name)


def test_problems_are_listed_once_and_first(monkeypatch: pytest.MonkeyPatch) -> None:
    told = [("Machine", [("memory", "8 GiB")]), ("Problems", [("1.", "numba does not work")])]
    monkeypatch.setattr(doctor_page, "sections", lambda: told)
    assert doctor_page.machine() == told[::-1]


def test_wrong_model_path_gives_a_banner_with_a_fix(
    tmp_path: Path, models: Models, browser: Browser, watch: Watch
) -> None:
    server = start(tmp_path / "app", tmp_path / "no such model.gguf", models[1])
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    watch.over(context, server.url)
    page = context.new_page()
    page.goto(server.url)
    banner = page.locator(".n-banner[data-level=error]")
    expect(banner).to_contain_text("no such model.gguf")
    # The page works on: another model can be loaded from it.
    page.get_by_role("button", name="Models").click()
    model = page.locator("#c-model input")
    model.fill(str(models[0]))
    model.press("Enter")
    page.get_by_role("button", name="Load this pair").click()
    expect(page.locator(".n-chip")).to_have_attribute("data-state", "ready")
    expect(banner).to_have_count(0)
    page.reload()
    page.get_by_role("button", name="Models").click()
    expect(model).to_have_value(str(models[0]))  # what is loaded now, not what the command line named
    context.close()
    server.stop()


def test_no_draft_gives_a_banner(tmp_path: Path, models: Models, open_page: Opens) -> None:
    server = start(tmp_path / "app", models[0], "none", max_tokens=8)
    chat = open_page(server)
    expect(chat.banners.filter(has_text="Drafting is off")).to_be_visible()
    chat.ask("plain, then")
    expect(chat.page.locator("#m-kept")).to_have_text("none drafted")
    chat.page.close()
    server.stop()


def test_controls_apply_to_the_next_answer_and_are_remembered(tmp_path: Path, models: Models, open_page: Opens) -> None:
    server = start(tmp_path / "app", *models, max_tokens=24, k="4")
    chat = open_page(server)
    chat.page.locator("#c-preset input").click()
    chat.page.get_by_role("option", name="Plain").click()
    chat.ask("without drafting")
    expect(chat.page.locator("#m-kept")).to_have_text("none drafted")
    chat.page.get_by_role("button", name="Sampling").click()
    longest = chat.page.locator("#c-max-tokens input")
    longest.fill("12")
    longest.press("Tab")
    expect(chat.page.locator("#c-preset input")).to_have_value("Plain")
    chat.ask("shorter")
    expect(chat.page.locator("#m-count")).to_contain_text("12 in 12")
    chat.page.get_by_role("button", name="Verification").click()
    rule, problem = chat.page.locator("#c-rule input"), chat.page.locator("#c-problem")
    rule.fill("topk:n=<b>2</b>")
    rule.press("Enter")
    expect(problem).to_contain_text("must be a whole number")
    expect(problem.locator("b")).to_have_count(0)
    rule.fill("topk:n=2")
    rule.press("Enter")
    expect(problem).to_be_hidden()
    chat.page.close()
    server.stop()

    again = start(tmp_path / "app", *models)
    chat = open_page(again)
    expect(chat.page.locator("#c-preset input")).to_have_value("Plain")
    chat.page.get_by_role("button", name="Verification").click()
    expect(chat.page.locator("#c-rule input")).to_have_value("topk:n=2")
    expect(chat.questions).to_have_count(2)
    chat.page.close()
    again.stop()


def test_attached_text_file_is_read_by_the_model(server: Server, open_page: Opens, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("line one\n<b>line two</b>\n", "utf-8")
    chat = open_page(server)
    chat.new()
    chat.page.locator("#ask input[type=file]").set_input_files(notes)
    expect(chat.page.get_by_role("listitem", name="File thumbnail")).to_be_visible()
    chat.ask("What is in the file?")
    expect(chat.transcript.get_by_text("notes.txt · 2 lines")).to_be_visible()


def test_system_prompt_is_kept_with_the_conversation(server: Server, open_page: Opens) -> None:
    chat = open_page(server)
    chat.new()
    chat.page.get_by_role("button", name="System prompt").click()
    system = chat.page.locator("#c-system textarea")
    system.fill("Answer in one word.")
    system.press("Tab")
    chat.ask("hello")
    chat.page.reload()
    chat.page.get_by_role("button", name="System prompt").click()
    expect(system).to_have_value("Answer in one word.")
    system.fill("")
    system.press("Tab")


def test_another_address_needs_a_password() -> None:
    from nsd_local.ui.launch import check_address

    from nsd_local.errors import UsageError

    for host in ("0.0.0.0", "192.168.1.7", "::"):
        with pytest.raises(UsageError, match="password"):
            check_address(host, None)
        check_address(host, "secret")
    check_address("127.0.0.1", None)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_no_serious_accessibility_violations(server: Server, open_page: Opens, scheme: str, width: int) -> None:
    chat = open_page(server, color_scheme=scheme, viewport={"width": width, "height": 860}, reduced_motion="reduce")
    chat.new()
    chat.ask("Is this page easy to use?")
    found = {"chat": violations(chat.page)}
    chat.show("Tokens")
    expect(chat.page.locator(".turn .tokens .t").first).to_be_attached()
    found["tokens"] = violations(chat.page)
    if scheme == "light" and width == 1280:
        race(chat.page)
    go(chat.page, "Race")
    found["race"] = violations(chat.page)
    go(chat.page, "Doctor")
    expect(chat.page.locator("#doctor-report table").first).to_be_visible()
    found["doctor"] = violations(chat.page)
    assert {page: serious for page, serious in found.items() if serious} == {}


def violations(page: Page) -> list[str]:
    """Serious and critical findings of axe-core, with the elements they are about."""
    result = Axe().run(page)
    return [
        f"{found['id']}: {node['html'][:160]}"
        for found in result.response["violations"]
        if found["impact"] in ("serious", "critical")
        for node in found["nodes"]
    ]
