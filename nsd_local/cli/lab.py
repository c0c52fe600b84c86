"""What the commands that measure share: their flags, the journal's header, and how results are printed."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, TypeVar

import typer

from nsd_local.api import Engine
from nsd_local.cli.options import Options
from nsd_local.decoding.settings import Settings
from nsd_local.errors import UsageError
from nsd_local.measure import table
from nsd_local.measure.campaign import KEY
from nsd_local.measure.folder import COMMANDS
from nsd_local.measure.journal import Journal
from nsd_local.measure.prompts import Prompt, interleaved, load_prompts, read_prompts
from nsd_local.measure.setup import setup

Arms = Annotated[
    list[str] | None,
    typer.Option(
        "--arm",
        "-a",
        help="What to compare; repeatable: plain, bare, or a rule such as nucleus:theta=0.85,k=4,budget=2.",
        show_default=False,
    ),
]
Kinds = Annotated[
    list[str] | None, typer.Option("--kind", help="Prompt kinds; repeatable.", show_default="all eight kinds")
]
PerKind = Annotated[int, typer.Option("--per-kind", min=1, help="Prompts of each kind.")]
Data = Annotated[
    Path | None, typer.Option("--data", help="JSONL file with prompts of your own (text, id, kind, answer).")
]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Only so many prompts.", show_default="all")]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Number of seeds, counted from --seed (0).")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Folder for the records; a run that was stopped goes on there.", file_okay=False),
]
Format = Annotated[str, typer.Option("--format", "-f", help="md, json, jsonl or csv.")]
TimeLimit = Annotated[
    float | None,
    typer.Option("--time-limit", min=0.0, help="Start nothing new after so many minutes.", show_default="none"),
]


def choose_prompts(kinds: list[str] | None, per_kind: int, data: Path | None, limit: int | None) -> list[Prompt]:
    """The prompts of a file, or the package's, kinds taking turns."""
    prompts = read_prompts(data) if data else load_prompts(kinds or None, per_kind)
    if data and kinds:
        prompts = [prompt for prompt in prompts if prompt.kind in kinds]
    return interleaved(prompts)[:limit]


def base_settings(options: Options, max_tokens: int) -> Settings:
    """What the shared flags say, with a limit of tokens where they give none."""
    settings = options.settings()
    return replace(settings, max_tokens=options.max_tokens or max_tokens, seed=None)


def seeds_of(options: Options, seeds: int) -> list[int]:
    return [(options.seed or 0) + i for i in range(seeds)]


def deadline(minutes: float | None) -> float | None:
    """So many minutes from now, by time.monotonic()."""
    return None if minutes is None else monotonic() + 60.0 * minutes


def open_journal(
    out: Path | None,
    name: str,
    engine: Engine,
    settings: Settings,
    texts: Sequence[str],
    system: str | None,
    *,
    rounds: bool = True,
) -> AbstractContextManager[Journal | None]:
    """The journal `name` in the folder, or none if no folder is given. Arms, seeds and repeats may be added to it in
    later runs; the prompts (`texts`), the settings, the machine and the models must be the same."""
    if out is None:
        return nullcontext()
    header = {
        "format": f"nsd-local {name} 1",
        "settings": {**asdict(settings), "rule": {"name": settings.rule.name, **asdict(settings.rule)}},
        "system": system,
        "prompts_sha256": digest(texts),
        "setup": setup(engine),
    }
    _note_command(out)
    return Journal(out / f"{name}.jsonl", header, KEY, rounds=rounds)


def _note_command(out: Path) -> None:
    """The command line goes into the folder too, once each, for the report."""
    command = shlex.join(["nsd-local", *sys.argv[1:]])
    with Journal(out / f"{COMMANDS}.jsonl", {"format": "nsd-local commands 1"}, ["command"]) as journal:
        if not journal.has({"command": command}):
            journal.append({"command": command})


def digest(texts: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()


def show(
    format: str, tables: Mapping[str, tuple[Mapping[str, table.Cell], Sequence[Any]]], rows: Sequence[Any]
) -> None:
    """Prints to stdout: `md` the tables under their titles, the other formats all rows; json and jsonl the tables'
    rows too."""
    kind = table.check_format(format)
    summaries = {title: list(values) for title, (_, values) in tables.items()}
    if kind == "md":
        print("\n\n".join(_titled(title, table.markdown(*content)) for title, content in tables.items()))
    elif kind == "csv":
        print(table.as_csv(rows))
    elif kind == "json":
        print(json.dumps({"rows": list(rows), "tables": summaries}, ensure_ascii=False))
    else:
        labelled = [{"table": title, **values} for title, content in summaries.items() for values in content]
        print(table.as_jsonl([*rows, *labelled]))


def _titled(title: str, text: str) -> str:
    return f"### {title}\n\n{text}" if title else text


def setup_line(engine: Engine) -> str:
    """Machine, build and files in one line."""
    facts = setup(engine)
    parts = [
        f"{facts['cpu_info']}, {facts['cores']} cores, {facts['n_threads']} threads",
        facts["gpu_info"],
        f"llama.cpp {facts['build']}",
        f"target {facts['model_filename']} ({facts['model_type']})",
        f"draft {facts.get('draft_filename') or facts['draft']}",
    ]
    return " · ".join(part for part in parts if part)


N = TypeVar("N", int, float)


def numbers(text: str, kind: type[N]) -> list[N]:
    """Such as 2,4,7, each once. Raises UsageError."""
    try:
        return list(dict.fromkeys(kind(part) for part in text.split(",")))
    except ValueError:
        raise UsageError(f"{text!r} is no list of numbers", "", "Write them with commas: 2,4,7") from None


def fixed_length(settings: Settings, k: int) -> Settings:
    """The same with k drafted tokens where k was left open."""
    return replace(settings, draft_tokens=k) if settings.draft_tokens == "auto" else settings
