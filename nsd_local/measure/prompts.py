"""The prompts that throughput is measured on: eight kinds of work, six prompts each, written for this project."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from nsd_local.decoding.json_lines import read_json_lines
from nsd_local.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KINDS = ("code", "edit", "math", "chat", "summarise", "translate", "extract", "write")


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request of a user. `kind` groups prompts whose drafts are accepted about equally often."""

    kind: str
    name: str  # unique within its kind
    text: str
    answer: str | None = None  # the right answer, where the prompt has one

    @property
    def id(self) -> str:
        """Such as `code/lru-cache`."""
        return f"{self.kind}/{self.name}"


def load_prompts(kinds: Iterable[str] | None = None, per_kind: int | None = None) -> list[Prompt]:
    """The package's prompts, kind by kind; the first `per_kind` of each kind.

    Raises UsageError for a kind that does not exist.
    """
    chosen: list[Prompt] = []
    for kind in KINDS if kinds is None else kinds:
        if kind not in KINDS:
            raise UsageError(f"There are no prompts of the kind {kind!r}", f"there are {', '.join(KINDS)}")
        chosen += _load(kind)[:per_kind]
    return chosen


def repeating_prompts() -> list[Prompt]:
    """Prompts whose answers repeat most of the prompt, for prompt lookup; not one of the eight kinds of work."""
    return _load("repeat")


def interleaved(prompts: Iterable[Prompt]) -> list[Prompt]:
    """The same prompts with their kinds taking turns, so that a run that is cut short has seen every kind."""
    queues: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        queues.setdefault(prompt.kind, []).append(prompt)
    longest = max(map(len, queues.values()), default=0)
    return [queue[i] for i in range(longest) for queue in queues.values() if i < len(queue)]


def read_prompts(path: Path) -> list[Prompt]:
    """Prompts from a JSONL file of the user: one object a line with `text`, `prompt` or `question`, and optionally
    `id` (or `name`), `kind` (else the file's name) and `answer`.

    Raises UsageError where the file cannot be read as such.
    """
    prompts = [_prompt(path, number, entry) for number, entry in read_json_lines(path)]
    if not prompts:
        raise UsageError(f"{path} holds no prompts")
    ids = [prompt.id for prompt in prompts]
    if len(set(ids)) < len(ids):
        twice = next(id_ for id_ in ids if ids.count(id_) > 1)
        raise UsageError(f"{path.name} holds two prompts called {twice}", "ids tell them apart", "Give each its own id")
    return prompts


def _load(kind: str) -> list[Prompt]:
    data = tomllib.loads(
        resources.files("nsd_local.measure")
        .joinpath("prompt_sets")
        .joinpath(f"{kind}.toml")
        .read_text(encoding="utf-8")
    )
    return [Prompt(kind, entry["name"], entry["text"].strip()) for entry in data["prompt"]]


def _prompt(path: Path, number: int, entry: Mapping[str, Any]) -> Prompt:
    text = next((entry[key] for key in ("text", "prompt", "question") if key in entry), None)
    if not isinstance(text, str) or not text.strip():
        raise UsageError(
            f"{path.name}, line {number} holds no prompt",
            "",
            'Write one object a line, such as {"id": "a", "kind": "chat", "text": "…"}',
        )
    answer = entry.get("answer")
    return Prompt(
        str(entry.get("kind", path.stem)),
        str(entry.get("id", entry.get("name", number))),
        text.strip(),
        None if answer is None else str(answer),
    )
