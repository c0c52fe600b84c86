"""`--grammar` and `--json-schema`."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

from nsd_local.cli.main import main

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["a"]}


@pytest.fixture
def generate(monkeypatch, tmp_path, capsys, tiny_target, tiny_draft):
    """`generate(...)` runs the command in this process: (exit code, stdout, stderr)."""
    monkeypatch.setenv("NSD_LOCAL_HOME", str(tmp_path / "home"))
    pair = ["-m", str(tiny_target), "-d", str(tiny_draft), "--ctx", "256", "--threads", "1", "-k", "4", "--seed", "1"]

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(""))
        code = main(["generate", "Hello", *pair, *map(str, arguments)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_the_answer_fits_the_schema(generate, tmp_path):
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    code, out, _ = generate("--json-schema", tmp_path / "schema.json", "--json")
    assert code == 0
    document = json.loads(out.splitlines()[-1])
    assert document["finish_reason"] == "stop"
    assert 0 <= json.loads(document["text"])["a"] <= 9
    assert document["speculation"]["drafted"] > 0
    assert document["speculation"]["deviation_sum"] == 0.0
    assert json.loads(document["settings"]["json_schema"]) == SCHEMA


def test_the_answer_follows_the_grammar(generate, tmp_path):
    (tmp_path / "word.gbnf").write_text('root ::= "Grüße, " [a-z]{3}', encoding="utf-8")
    code, out, _ = generate("--grammar", tmp_path / "word.gbnf")
    assert code == 0
    assert re.fullmatch("Grüße, [a-z]{3}", out.strip())


def test_the_examples_of_the_page_work(generate, tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "grammar.md").read_text(encoding="utf-8")
    for name, flag in (("card.json", "--json-schema"), ("list.gbnf", "--grammar")):
        (content,) = re.findall(rf"`{name}`:\n\n```\w*\n(.*?)```", page, re.DOTALL)
        assert f"{flag} {name}" in page
        (tmp_path / name).write_text(content, encoding="utf-8")
        code, out, _ = generate(flag, tmp_path / name, "--ctx", "2048", "--json")
        assert code == 0
        assert json.loads(out.splitlines()[-1])["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("flag", "content", "why"),
    [
        ("--grammar", 'root ::= "a" | nothing', "column 16: there is no rule named 'nothing'"),
        (
            "--json-schema",
            '{"properties": {"a": {"multipleOf": 2}}}',
            "#/properties/a: a grammar cannot hold multipleOf",
        ),
        ("--json-schema", "{", "is not JSON"),
        ("--grammar", None, "--grammar takes a text file"),
    ],
)
def test_what_cannot_be_used_is_a_usage_error(generate, tmp_path, flag, content, why):
    file = tmp_path / "file"
    if content is not None:
        file.write_text(content)
    code, out, err = generate(flag, file)
    assert code == 2
    assert out == ""
    assert why in " ".join(err.split())


def test_a_grammar_and_a_schema_exclude_each_other(generate, tmp_path):
    (tmp_path / "schema.json").write_text("{}")
    (tmp_path / "word.gbnf").write_text('root ::= "a"')
    code, _, err = generate("--grammar", tmp_path / "word.gbnf", "--json-schema", tmp_path / "schema.json")
    assert code == 2
    assert "exclude each other" in err
