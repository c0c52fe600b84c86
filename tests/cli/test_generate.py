"""`nsd-local generate` on tiny models: what goes where, exit codes, JSON, seeds, Ctrl-C."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from nsd_local import Law, Settings, load
from nsd_local.cli.generate import Printer
from nsd_local.cli.main import main
from nsd_local.cli.palette import LOOKS
from nsd_local.decoding.events import Finished, Notice, Step
from nsd_local.decoding.records import Result, Round, Times
from tests import tiny
from tests.tiny import Tiny

ENDLESS = Tiny(seed=1, stop_bias=-30.0)


@pytest.fixture(scope="module")
def pair(tiny_folder):
    target = tiny.write(tiny_folder / "generate-target.gguf", ENDLESS)
    draft = tiny.write(tiny_folder / "generate-draft.gguf", replace(ENDLESS, noise=0.03))
    return ["-m", str(target), "-d", str(draft)]


@pytest.fixture
def generate(monkeypatch, tmp_path, capsys):
    """`generate(...)` runs the command in this process: (exit code, stdout, stderr)."""
    monkeypatch.setenv("NSD_LOCAL_HOME", str(tmp_path / "home"))

    def run(*arguments: str, typed: str | None = None) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed or ""))
        code = main(["generate", "--ctx", "512", "--threads", "1", "-k", "4", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_the_answer_goes_to_stdout_and_the_footer_to_stderr(generate, pair):
    code, out, err = generate("Hello", *pair, "-n", "20", "--seed", "1")
    assert code == 0
    assert out.strip()
    assert "tok/s" not in out
    footer = err.strip().splitlines()[-1]
    assert footer.startswith("20 tokens · ")
    for part in ("tok/s", "% of drafts", "tokens per pass", "deviation", "total"):
        assert part in footer


def test_json_is_one_document_on_the_last_line(generate, pair):
    code, out, _ = generate("Hello", *pair, "-n", "24", "--seed", "1", "--json", "--tokens", "--theta", "0.8")
    assert code == 0
    doc = json.loads(out.splitlines()[-1])
    assert doc["usage"]["completion_tokens"] == 24 == len(doc["tokens"]) == doc["timings"]["predicted_n"]
    assert "".join(token["text"] for token in doc["tokens"]) == doc["text"]
    assert doc["finish_reason"] == "length"
    spec = doc["speculation"]
    assert (spec["rule"], spec["theta"], spec["strength"], spec["active"]) == ("nucleus", 0.8, 1.0, True)
    assert spec["accepted_ratio"] + spec["accepted_nucleus"] == doc["timings"]["draft_n_accepted"]
    assert spec["acceptance_rate"] == pytest.approx(doc["timings"]["draft_n_accepted"] / spec["drafted"])
    kinds = ("accepted_ratio", "accepted_nucleus", "recovered", "bonus", "plain")
    assert sum(spec[kind] for kind in kinds) == 24
    assert spec["mean_accepted_length"] == pytest.approx(24 / spec["rounds"])
    split = spec["time_split"]
    assert set(split) == {"draft", "verify", "accept", "rollback", "other"}
    assert sum(split.values()) * 1e3 == pytest.approx(doc["timings"]["predicted_ms"])
    assert (doc["settings"]["seed"], doc["settings"]["block"]) == (1, True)
    assert doc["models"]["target"]["path"] == pair[1]
    assert set(doc["tokens"][0]) >= {"id", "text", "kind", "p", "q", "target_rank", "deviation"}


def test_streamed_or_not_the_text_is_the_same(generate, pair):
    arguments = ("Hello", *pair, "-n", "30", "--seed", "4")
    streamed = generate(*arguments)[1]
    assert generate(*arguments, "--no-stream")[1] == streamed
    assert generate(*arguments, "--show-kinds")[1] == streamed


def test_kinds_are_coloured_with_a_legend_and_no_color_is_honoured(pair, tmp_path):
    arguments = [sys.executable, "-m", "nsd_local", "generate", "Hi", *pair, "-n", "8", "-k", "4", "--show-kinds"]
    env = {**os.environ, "NSD_LOCAL_HOME": str(tmp_path), "FORCE_COLOR": "1", "TERM": "xterm-256color"}
    coloured = subprocess.run(arguments, env=env, capture_output=True, encoding="utf-8", check=True).stdout
    assert "\x1b[" in coloured
    env |= {"NO_COLOR": "1"}
    plain = subprocess.run(arguments, env=env, capture_output=True, encoding="utf-8", check=True)
    assert "\x1b[38" not in plain.stdout + plain.stderr
    for kind in LOOKS:
        assert kind in plain.stderr  # the legend is not part of the answer


def test_seeds(generate, pair):
    def text(*more):
        return generate("Hello", *pair, "-n", "30", *more)[1]

    assert text() != text()
    assert text("--seed", "0") == text("--seed", "0")
    assert text("--seed", "7") == text("--seed", "7") != text("--seed", "0")


def test_a_prompt_from_a_pipe(generate, pair):
    arguments = (*pair, "-n", "12", "--seed", "2")
    assert generate(*arguments, typed="Hello")[1] == generate("-", *arguments, typed="Hello")[1]
    assert generate("Hello", *arguments)[1] == generate(*arguments, typed="Hello")[1]


@pytest.mark.parametrize("prompt", ["", "   \n\t "])
def test_an_empty_prompt_is_a_usage_error(generate, pair, prompt):
    code, out, err = generate("-", *pair, typed=prompt)
    assert (code, out) == (2, "")
    assert "empty" in err


def test_lookup_and_plain_decoding(generate, pair):
    target = pair[:2]
    code, _, err = generate("Hello", *target, "-d", "none", "-n", "8")
    assert code == 0
    assert "drafting is off" in err
    assert "no drafting" in err
    assert generate("Hello", *target, "-d", "ngram", "-n", "8")[0] == 0


@pytest.mark.parametrize(
    ("wrong", "code", "words"),
    [
        (["--temperature", "-1"], 2, "temperature"),
        (["--theta", "3"], 2, "theta"),
        (["-k", "many"], 2, "number or auto"),
        (["--rule", "best"], 2, "rule"),
        (["--stop", ""], 2, "stop"),
        (["-m", "no-such-model"], 2, "no-such-model"),
        (["-m", "missing.gguf"], 3, "missing.gguf"),
        (["--ctx", "100000000"], 3, "gib"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_paragraph(generate, pair, wrong, code, words):
    ended, out, err = generate("Hello", *pair, *wrong)
    assert ended == code
    assert out == ""
    assert words in err.lower()
    assert "Traceback" not in err


def cut(whole: bytes) -> bytes:
    return whole[: len(whole) // 2]


@pytest.mark.parametrize(
    ("content", "words"),
    [(cut, "incomplete"), (lambda whole: b"", "empty"), (lambda whole: b"Dear diary", "not a gguf file")],
)
def test_broken_files_are_refused_in_one_line(generate, pair, tmp_path, content, words):
    file = tmp_path / "broken.gguf"
    file.write_bytes(content(Path(pair[1]).read_bytes()))
    code, _, err = generate("Hello", "-m", str(file), "-d", "none")
    assert code == 3
    assert words in err.lower()
    assert len(err.strip().splitlines()) == 1


def test_a_folder_is_refused(generate, tmp_path):
    code, _, err = generate("Hello", "-m", str(tmp_path))
    assert code == 3
    assert "folder" in err


def test_a_pair_that_does_not_fit_is_refused_before_a_token(generate, pair, tmp_path):
    other = tiny.write(tmp_path / "other.gguf", Tiny(seed=1, add_bos=True))
    code, out, err = generate("Hello", *pair[:2], "-d", str(other))
    assert (code, out) == (3, "")
    assert "bos" in err


def test_a_draft_that_fails_to_load_is_one_visible_line(generate, pair, tmp_path):
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"no")
    code, out, err = generate("Hello", *pair[:2], "-d", str(file), "-n", "8")
    assert code == 0
    assert out.strip()
    assert err.count("drafting is off") == 1


def test_system_prompts_and_raw(generate, pair):
    assert generate("Hello", *pair, "-s", "Be brief.", "-n", "4")[0] == 0
    assert generate("Hello", *pair, "--raw", "-n", "4")[0] == 0
    code, _, err = generate("Hello", *pair, "--raw", "-s", "Be brief.")
    assert code == 2
    assert "--raw" in err


def test_indents_survive(generate, tmp_path):
    """64 and 128 spaces are several tokens, and pieces longer than a small buffer."""
    model = tiny.write(tmp_path / "spaces.gguf", ENDLESS)
    texts = tiny.vocabulary(ENDLESS.n_vocab)[0]
    spaces = [i for i, text in enumerate(texts) if set(text) == {tiny.SPACE} and len(text) >= 32]
    only = tuple((token, -1e9) for token in range(ENDLESS.n_vocab) if token not in spaces)
    with load(model, "none", ctx=512, threads=1) as engine:
        prompt = "if x:\n" + " " * 64 + "y\n" + " " * 128 + "z"
        tokens = engine.tokens(prompt, raw=True)
        assert b"".join(engine.target.piece(token) for token in tokens).decode() == prompt
        result = engine.generate(prompt, Settings(law=Law(), logit_bias=only, max_tokens=9), raw=True)
        sizes = [len(engine.target.piece(token.id)) for round_ in result.rounds for token in round_.tokens]
    assert result.text == " " * sum(sizes)
    assert set(sizes) == {32, 64}


def test_a_session_is_saved_and_restored(generate, pair, tmp_path):
    session = tmp_path / "memory.nsd"
    arguments = ("Hello " * 40, *pair, "-n", "8", "--seed", "1", "--json", "--session", str(session))
    first = json.loads(generate(*arguments)[1].splitlines()[-1])
    again = json.loads(generate(*arguments)[1].splitlines()[-1])
    assert first["timings"]["cache_n"] == 0
    assert again["timings"]["prompt_n"] == 1
    assert again["text"] == first["text"]
    session.write_bytes(b"something else")
    code, _, err = generate(*arguments)
    assert code == 1
    assert str(session) in err


@pytest.mark.skipif(sys.platform == "win32", reason="no process can send another one Ctrl-C there")
def test_ctrl_c_stops_the_answer_and_says_so(pair, tmp_path):
    command = [sys.executable, "-m", "nsd_local", "generate", "Hello", *pair, "--ctx", "8192", "-k", "2"]
    env = {**os.environ, "NSD_LOCAL_HOME": str(tmp_path)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.read(20)  # it is answering
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip().endswith(b"stopped")
    assert b"Traceback" not in err


@pytest.mark.parametrize("show_kinds", [False, True])
def test_control_characters_of_an_answer_act_on_no_terminal(capsys, show_kinds):
    printer = Printer(stream=True, show_kinds=show_kinds)
    printer.out = Console(force_terminal=True, color_system=None, soft_wrap=True)
    text = "a\x1b]52;c;aGk=\x07b"
    result = Result(text, "stop", 0, 1, 1, 0, 0.0, 0.0, None, 0.0, (), False, "")
    printer.run(iter([Finished(result, text)]))
    assert "a␛]52;c;aGk=␇b" in capsys.readouterr().out


def test_a_notice_never_stands_in_the_midst_of_the_answer(capsys):
    result = Result("ab", "stop", 0, 1, 1, 0, 0.0, 0.0, None, 0.0, (), False, "")
    step = Step(Round(0, 1, 0, "", "", (), (), 0, (), (), (), None, None, Times()), "a")
    events = [Notice("early"), step, Notice("late"), Finished(result, "b")]
    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nsd_local.cli.generate.status", lambda text: told.append((text, capsys.readouterr().out)))
        Printer(stream=True, show_kinds=False).run(iter(events))
    assert told == [("early", ""), ("late", "ab\n")]
