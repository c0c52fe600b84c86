"""`nsd-local chat` as a person uses it: through a pseudo-terminal, and through a pipe."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nsd_local.chat.conversation import Conversation
from nsd_local.chat.store import Store
from nsd_local.cli.chat_commands import COMMANDS
from nsd_local.cli.chat_printer import ChatPrinter
from nsd_local.cli.chat_settings import changed, described, names
from nsd_local.cli.options import Options
from nsd_local.cli.visible import visible
from nsd_local.decoding.events import Finished
from nsd_local.decoding.records import Result
from nsd_local.errors import UsageError
from nsd_local.verification.rule import Nucleus
from tests import tiny
from tests.tiny import Tiny

pexpect = pytest.importorskip("pexpect", reason="pexpect drives the pseudo-terminal, which Windows does not have")

PATIENCE = 180  # seconds until a test counts as hung
FOOTER = r"tok/s[^\n]*\n"
PROMPT = r"> $"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The flags of a pair that never ends an answer by itself."""
    folder = tmp_path_factory.mktemp("pair")
    target = tiny.write(folder / "target.gguf", Tiny(seed=1, stop_bias=-30.0, n_ctx_train=131072))
    draft = tiny.write(folder / "draft.gguf", Tiny(seed=1, stop_bias=-30.0, n_ctx_train=131072, noise=0.02))
    return ["-m", str(target), "-d", str(draft), "--ctx", "4096", "--temperature", "0"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "NSD_LOCAL_HOME": str(tmp_path / "home"), "TERM": "dumb", "PYTHONIOENCODING": "utf-8"}


class Terminal:
    """A chat in a pseudo-terminal."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        command = ["-m", "nsd_local.cli.main", "chat", *arguments]
        self.child = pexpect.spawn(
            sys.executable,
            command,
            env=environment,
            encoding="utf-8",
            codec_errors="replace",
            timeout=PATIENCE,
            dimensions=(50, 400),
        )
        self.child.expect(PROMPT)

    def send(self, line: str, *, answered: bool = False) -> str:
        """Types a line; returns what came back until the next prompt."""
        self.child.sendline(line)
        if not answered:
            self.child.expect(PROMPT)
            return str(self.child.before)
        self.child.expect(FOOTER)
        shown = str(self.child.before) + str(self.child.after)
        self.child.expect(PROMPT)
        return shown

    def end(self) -> int:
        self.child.expect(pexpect.EOF)
        self.child.close()
        return int(self.child.exitstatus)


@pytest.fixture
def terminal(pair: list[str], environment: dict[str, str]) -> Iterator[Terminal]:
    terminal = Terminal([*pair, "-n", "12"], environment)
    yield terminal
    terminal.child.close(force=True)


def test_every_command(terminal: Terminal, environment: dict[str, str]) -> None:
    shown = terminal.send("/help")
    assert all(f"/{name}" in shown for name in COMMANDS)
    assert "There is no answer yet" in terminal.send("/stats")
    assert "nothing to undo" in terminal.send("/undo")
    assert "nothing to save" in terminal.send("/save")

    assert "system prompt: none" in terminal.send("/system")
    assert "system prompt: Be brief." in terminal.send("/system Be brief.")
    assert "max-tokens" in (settings := terminal.send("/set"))
    assert re.search(r"\* max-tokens +12", settings)
    assert re.search(r"  theta +0\.9 .*\n.*  strength +1 .*\n.*  cap +none ", settings.replace("\r", ""))
    assert "default" not in settings
    assert re.search(r"  ctx-shift +off +On lets the oldest turns go", settings)
    assert "k 3" in terminal.send("/set k 3").splitlines()
    assert "theta 0.9" in terminal.send("/set theta default").splitlines()
    assert "ctx-shift off" in terminal.send("/set ctx-shift off").splitlines()
    assert "block off" in terminal.send("/set block off").splitlines()
    assert re.search(r"\* draft-tokens +3", terminal.send("/set"))
    assert "needs a value" in terminal.send("/set theta")
    assert "Did you mean temperature?" in terminal.send("/set temperatur 1")
    assert "takes a number" in terminal.send("/set theta much")
    assert "rule: exact" in terminal.send("/rule exact")
    assert re.search(r"  theta +- ", terminal.send("/set"))  # which this rule does not have
    assert "rule: nucleus (theta 0.9, strength 1.0, cap none)" in terminal.send("/rule nucleus")

    first = terminal.send("hello", answered=True)
    assert "12 tokens" in first
    assert "tokens read" not in first
    assert "conversation: 1 answer, 12 tokens" in terminal.send("/stats")
    for line in ('"""', "one", ""):
        terminal.child.sendline(line)
        terminal.child.expect(r"\. $")
    assert "12 tokens" in terminal.send('  two"""', answered=True)
    assert "conversation: 2 answers, 24 tokens" in terminal.send("/stats")
    assert "12 tokens" in terminal.send("/retry", answered=True)
    assert "conversation: 2 answers, 24 tokens" in terminal.send("/stats")

    kinds = terminal.send("/kinds")
    assert "kinds of tokens: shown" in kinds
    assert "nucleus: drafted" in kinds
    more = terminal.send("more", answered=True)
    assert "12 tokens" in more
    assert "recovered" not in more  # the legend was told
    assert "not shown" in terminal.send("/kinds off")
    assert "taken back: more" in terminal.send("/undo")

    assert "saved as 'A title'" in terminal.send("/save A title")
    terminal.send("/reset")
    assert "There is no answer yet" in terminal.send("/stats")
    assert "2 turns  A title" in terminal.send("/load")
    assert "loaded 'A title': 2 turns" in terminal.send("/load a ti")
    assert "conversation: 2 answers, 24 tokens" in terminal.send("/stats")
    assert "There is no conversation 'b'. /load alone lists them" in terminal.send("/load b")
    assert "There is no command /helo. Did you mean /help? // sends" in terminal.send("/helo")
    assert "There is no command /settings. Did you mean /set? // sends" in terminal.send("/settings")
    assert "There is no command /nope. /help lists the commands. // sends" in terminal.send("/nope")
    assert "12 tokens" in terminal.send("//etc is a folder", answered=True)
    terminal.child.sendline("/quit")
    assert terminal.end() == 0
    home = Path(environment["NSD_LOCAL_HOME"])
    (entry,) = Store(home / "conversations").list()
    assert [turn.user for turn in Store(home / "conversations").load(entry.id).turns] == ["hello", "one\n\n  two"]


def test_interrupt_stops_the_answer_and_not_the_program(pair: list[str], environment: dict[str, str]) -> None:
    terminal = Terminal([*pair, "--ctx", "100000", "-k", "2"], environment)
    terminal.child.sendline("go on for ever")
    terminal.child.expect("go on for ever\r\n")
    for _ in range(150):  # the answer is under way
        terminal.child.expect(r"\S")
    terminal.child.sendintr()
    terminal.child.expect(r"stopped\r\n")
    terminal.child.expect(PROMPT)
    assert "1 answer," in terminal.send("/stats")
    terminal.child.sendintr()  # at the prompt it says how to leave
    terminal.child.expect("Ctrl-D or /quit")
    terminal.child.expect(PROMPT)
    terminal.send("/set n 5")
    assert "5 tokens" in terminal.send("and now", answered=True)
    stats = terminal.send("/stats")
    assert "2 answers" in stats
    read = re.search(r"its prompt: ([\d,]+) tokens, (\d+) read", stats)
    assert read
    assert int(read[2]) < 60 < int(read[1].replace(",", ""))  # what was said before the interrupt was not read again
    terminal.child.sendeof()
    assert terminal.end() == 0


def test_end_of_input_at_once_and_inside_a_block(pair: list[str], environment: dict[str, str]) -> None:
    terminal = Terminal([*pair, "-n", "4"], environment)
    terminal.child.sendline('"""never finished')
    terminal.child.expect(r"\. $")
    terminal.child.sendeof()
    terminal.child.expect("was not sent")
    assert terminal.end() == 0


def test_history_is_kept(pair: list[str], environment: dict[str, str]) -> None:
    terminal = Terminal([*pair, "-n", "4"], environment)
    terminal.send("/system unforgettable")
    terminal.child.sendeof()
    assert terminal.end() == 0
    history = Path(environment["NSD_LOCAL_HOME"]) / "chat_history"
    assert "unforgettable" in history.read_text("utf-8")
    assert history.stat().st_mode & 0o077 == 0  # nobody else's business
    again = Terminal([*pair, "-n", "4"], environment)
    again.child.send("\x1b[A\r")  # arrow up
    again.child.expect("system prompt: unforgettable")
    again.child.close(force=True)


def piped(text: str, arguments: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nsd_local.cli.main", "chat", *arguments],
        input=text,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=PATIENCE,
        check=False,
    )


def test_pipe(pair: list[str], environment: dict[str, str]) -> None:
    """Answers go to stdout, everything else to stderr; the end of the input ends the chat."""
    done = piped('hello\n"""\na\n  b\n"""\n/undo\n/nothing\n', [*pair, "-n", "6"], environment)
    assert done.returncode == 0
    assert done.stderr.count("6 tokens") == 2
    assert "taken back: a\n  b" in done.stderr
    assert "There is no command /nothing" in done.stderr
    assert "tok/s" not in done.stdout
    assert "> " not in done.stdout.splitlines()[0][:2]
    assert done.stdout.strip()


def test_the_legend_is_told_once(pair: list[str], environment: dict[str, str]) -> None:
    done = piped("one\ntwo\n", [*pair, "-n", "6", "--show-kinds"], environment)
    assert done.stderr.count("6 tokens") == 2
    assert (done.stdout + done.stderr).count("recovered") == 1


def test_empty_input(pair: list[str], environment: dict[str, str]) -> None:
    done = piped("", pair, environment)
    assert (done.returncode, done.stdout) == (0, "")


def test_bad_model_is_refused(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "no.gguf").write_text("this is no model")
    done = piped("hello\n", ["-m", str(tmp_path / "no.gguf")], environment)
    assert done.returncode == 3
    assert "GGUF" in done.stderr


def test_full_context_does_not_end_the_chat(pair: list[str], environment: dict[str, str]) -> None:
    arguments = [*pair, "--ctx", "256", "-n", "6"]
    done = piped("x" * 400 + "\nhello\n", arguments, environment)
    assert done.returncode == 0
    assert "The context holds 256" in done.stderr
    assert len(re.findall("^6 tokens", done.stderr, re.MULTILINE)) == 1
    lines = "".join(f"{'y' * 60} {i}\n" for i in range(6))
    shifted = piped(lines, [*arguments, "--ctx-shift"], environment)
    assert len(re.findall("^6 tokens", shifted.stderr, re.MULTILINE)) == 6
    assert "no longer read by the model" in shifted.stderr


def test_session_goes_on(pair: list[str], environment: dict[str, str], tmp_path: Path) -> None:
    """The second run reads only what is new, and its conversation holds what was said in the first."""
    arguments = [*pair, "-n", "8", "-k", "3", "--session", str(tmp_path / "sitzung ä")]
    first = piped("hello there, and a good deal more of the same\n", [*arguments, "-s", "Be brief."], environment)
    assert first.returncode == 0
    again = piped("/system\nand now\n/stats\n", arguments, environment)
    assert again.returncode == 0
    assert "going on with 'hello there, and a good deal more of the same': 1 turns" in again.stderr
    assert "system prompt: Be brief." in again.stdout
    read = re.search(r"its prompt: (\d+) tokens, (\d+) read", again.stdout)
    assert read
    assert int(read[2]) < 40 < int(read[1])
    assert "conversation: 2 answers, 16 tokens" in again.stdout
    (tmp_path / "no session").write_text("text")
    refused = piped("hello\n", [*pair, "--session", str(tmp_path / "no session")], environment)
    assert refused.returncode not in (0, 130)
    assert "no session" in refused.stderr


def test_settings_by_name() -> None:
    assert {"rule", "theta", "draft-tokens", "temperature", "max-tokens", "stop", "seed"} <= set(names())
    assert not {"model", "ctx", "threads", "system"} & set(names())
    options = Options()
    for name, value in (("theta", "0.5"), ("seed", "3"), ("stop", "\\n\\n"), ("rule", "exact"), ("k", "auto")):
        options = changed(options, name, value)
    assert (options.rule, options.seed, options.stop, options.draft_tokens) == ("exact", 3, ["\n\n"], "auto")
    assert options.theta is None  # it was the other rule's
    options = changed(options, "rule", "nucleus")
    assert changed(options, "theta", "0.5").settings().rule == Nucleus(0.5)
    assert options.settings().stop == ("\n\n",)
    assert changed(changed(options, "theta", "0.5"), "theta", "default") == options
    assert not changed(options, "block", "off").settings().block
    assert changed(changed(options, "block", "off"), "block", "on") == options
    assert any(line.split()[:3] == ["*", "block", "off"] for line in described(changed(options, "block", "off")))
    assert [line for line in described(options) if line.startswith("*")]
    for name, value in (
        ("model", "x"),
        ("ctx", "1"),
        ("temperature", "-1"),
        ("top-k", "1.5"),
        ("rule", "magic"),
        ("block", "0"),
        ("block", "none"),
    ):
        with pytest.raises(UsageError):
            changed(options, name, value)


def test_control_characters_are_shown_as_pictures() -> None:
    assert visible("\x1b]0;title\x07 a\tb\n\x9b") == "␛]0;title␇ a\tb\n\ufffd"


@pytest.mark.parametrize(
    ("text", "opened", "shown"),
    [
        ("<think>\nwhy\n</think>\n\nbecause", "", "\x1b[2mwhy\x1b[0m\n\nbecause\n"),
        ("why</think>because", "<think>", "\x1b[2mwhy\x1b[0m\n\nbecause\n"),
        ("no <think> here\n", "", "no <think> here\n"),
        ("\x1b[2J", "", "␛[2J\n"),
    ],
)
def test_reasoning_is_dim_on_a_terminal(
    text: str, opened: str, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    conversation = Conversation()
    conversation.opened = opened
    printer = ChatPrinter(conversation, show_kinds=False)
    result = Result(text, "stop", 0, 1, 1, 0, 0.0, 0.0, None, 0.0, (), False, "")
    printer.run(iter([Finished(result, text)]))
    assert capsys.readouterr().out == shown


def test_reasoning_stays_as_it_is_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    text = "<think>why</think>because\n"
    result = Result(text, "stop", 0, 1, 1, 0, 0.0, 0.0, None, 0.0, (), False, "")
    ChatPrinter(Conversation(), show_kinds=False).run(iter([Finished(result, text)]))
    assert capsys.readouterr().out == text
