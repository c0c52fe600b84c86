from __future__ import annotations

import json
from pathlib import Path

import pytest

from nsd_local.errors import UsageError
from nsd_local.measure.prompts import KINDS, interleaved, load_prompts, read_prompts


def test_there_are_six_prompts_of_each_of_eight_kinds() -> None:
    prompts = load_prompts()
    assert [prompt.kind for prompt in prompts] == [kind for kind in KINDS for _ in range(6)]
    assert len({prompt.id for prompt in prompts}) == 48
    assert len({prompt.text for prompt in prompts}) == 48


@pytest.mark.parametrize("kind", ["edit", "summarise", "translate", "extract"])
def test_kinds_that_work_on_a_text_bring_one(kind: str) -> None:
    assert all(len(prompt.text) > 500 for prompt in load_prompts([kind]))


def test_prompts_can_be_chosen() -> None:
    assert [prompt.kind for prompt in load_prompts(["math", "code"], 2)] == ["math", "math", "code", "code"]
    with pytest.raises(UsageError, match="poetry"):
        load_prompts(["poetry"])


def test_kinds_take_turns() -> None:
    order = [prompt.kind for prompt in interleaved([*load_prompts(["math"], 3), *load_prompts(["code"], 1)])]
    assert order == ["math", "code", "math", "math"]


def test_prompts_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    rows = [{"question": "1+1?", "answer": "2", "id": "sum"}, {"text": "Hello", "kind": "chat"}]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")
    first, second = read_prompts(path)
    assert (first.id, first.text, first.answer) == ("mine/sum", "1+1?", "2")
    assert (second.id, second.text, second.answer) == ("chat/2", "Hello", None)


def test_only_line_feeds_end_a_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    texts = ["one\u2028two", "three\x85four"]
    lines = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
    path.write_text("\r\n".join(lines), encoding="utf-8", newline="")
    assert [prompt.text for prompt in read_prompts(path)] == texts


@pytest.mark.parametrize("text", ["", "\n", "no json", "[1]", '{"text": ""}', '{"title": "x"}'])
def test_a_file_without_prompts_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=r"bad\.jsonl"):
        read_prompts(path)
