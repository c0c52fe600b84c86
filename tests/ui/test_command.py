"""`nsd-local ui` as it is started: addresses, password, Ctrl-C; and a model that must be fetched first."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from nsd_local.ui.app import App
from nsd_local.ui.choice import Choice
from nsd_local.ui.launch import serve
from nsd_local.ui.preferences import Preferences
from nsd_local.ui.session import MissingError, Report
from playwright.sync_api import Browser, expect

from nsd_local.api import Engine
from nsd_local.cli.options import Options
from nsd_local.cli.ui import given
from nsd_local.loading import LoadOptions, load_pair
from tests.ui.conftest import PATIENCE_MS, REPOSITORY, ChatPage, Models, Watch

NUCLEUS = {"rule": "nucleus", "theta": 0.9, "strength": 1.0, "cap": None}


def command(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "NSD_LOCAL_HOME": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-m", "nsd_local", "ui", "--no-browser", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.3"])
def test_another_address_without_a_password_is_refused(tmp_path: Path, host: str) -> None:
    process = command(tmp_path, "--host", host)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "--password" in said


@pytest.mark.parametrize(("port", "told"), [("70000", "0..65535"), ("-1", "0..65535"), (None, "is in use")])
def test_a_port_that_cannot_be_had_is_refused_before_loading(tmp_path: Path, port: str | None, told: str) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = port or str(other.getsockname()[1])
        process = command(tmp_path, "-m", "no such model", "--port", taken)
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert taken in said
    assert told in said
    assert "no such model" not in said


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be sent Ctrl-C there without its console")
def test_password_is_asked_for_a_grammar_holds_and_ctrl_c_ends(
    tmp_path: Path, models: Models, browser: Browser, watch: Watch
) -> None:
    grammar = tmp_path / "yes.gbnf"
    grammar.write_text('root ::= "yes"', "utf-8")
    pair = ("-m", str(models[0]), "-d", str(models[1]), "-n", "8")
    process = command(tmp_path, *pair, "--password", "secret", "--grammar", str(grammar))
    assert process.stdout is not None
    line = next(line for line in process.stdout if "http" in line)
    url = next(word for word in line.split() if word.startswith("http"))
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.goto(url)
    expect(page.locator("#ask")).to_have_count(0)
    for password, enters in (("wrong", False), ("secret", True)):
        page.get_by_label("username").fill("me")
        page.get_by_label("password").fill(password)
        page.get_by_role("button", name="Login").click()
        if enters:
            expect(page.locator("#ask textarea")).to_be_visible()
            chat = ChatPage(page)
            chat.ask("Is this a grammar?")
            expect(chat.answers).to_have_text("yes")
        else:
            expect(page.get_by_text("Incorrect")).to_be_visible()
    context.close()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("options", "flags", "dials"),
    [
        (Options(rule="topk:n=2"), ["rule"], {"rule": "topk:n=2"}),
        (Options(deviation=0.05), ["deviation"], {"rule": "auto-strength:deviation=0.05"}),
        (Options(rule="target-topp"), ["rule"], {"rule": "target-topp", "budget": None}),
        (Options(rule="nucleus"), ["rule"], NUCLEUS),
        (Options(theta=0.8), ["theta"], {"rule": "nucleus", "theta": 0.8}),
        (Options(rule="nucleus:theta=0.8", cap=0.1), ["rule", "cap"], NUCLEUS | {"theta": 0.8, "cap": 0.1}),
        (Options(draft_tokens="3", seed=0), ["draft_tokens", "seed"], {"k": "3", "seed": 0}),
        (Options(block=False), ["block"], {"block": False}),
        (Options(temperature=0.2), [], {}),
    ],
)
def test_flags_are_dials(options: Options, flags: list[str], dials: dict[str, object]) -> None:
    """`flags` are those that stand on the command line."""
    found = given(options, flags.__contains__)
    assert found == dials
    Preferences(**found).settings()


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot be sent Ctrl-C there without its console")
def test_what_the_command_line_says_goes_before_what_is_remembered(tmp_path: Path) -> None:
    kept = {"rule": "exact", "theta": 0.5, "temperature": 0.2, "top_k": 40}
    (tmp_path / "ui.json").write_text(json.dumps(kept), "utf-8")
    process = command(tmp_path, "-m", str(tmp_path / "no.gguf"), "--rule", "nucleus", "--temperature", "0.7")
    assert process.stdout is not None
    assert any("http" in line for line in process.stdout)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)
    now = json.loads((tmp_path / "ui.json").read_text("utf-8"))
    assert {name: now[name] for name in kept} == {"rule": "nucleus", "theta": 0.9, "temperature": 0.7, "top_k": 40}


def test_a_missing_model_is_fetched_from_the_page(
    tmp_path: Path, models: Models, browser: Browser, watch: Watch
) -> None:
    """The loading is real; the network is not: the test hands over the progress that a download would report."""
    go_on = threading.Event()

    def opener(choice: Choice, report: Report, cancelled: Callable[[], bool]) -> Engine:
        if not choice.fetch:
            raise MissingError("The model Tiny (0.10 GB) is not on this machine yet", 100_000_000)
        report("Fetching Tiny", 40_000_000, 100_000_000)
        go_on.wait()
        return Engine(load_pair(models[0], models[1], LoadOptions(ctx=1024)))

    with App(Choice(), folder=tmp_path, opener=opener) as app:
        url = serve(app)
        context = browser.new_context()
        context.set_default_timeout(PATIENCE_MS)
        watch.over(context, url)
        page = context.new_page()
        page.goto(url)
        banner = page.locator(".n-banner")
        expect(banner).to_contain_text("not on this machine yet")
        page.get_by_role("button", name="Download now").click()
        expect(banner).to_contain_text("40 of 100 MB")
        expect(banner.locator("progress")).to_have_attribute("value", "40000000")
        go_on.set()
        expect(page.locator(".n-chip")).to_have_attribute("data-state", "ready")
        expect(banner).to_have_count(0)
        context.close()
