"""The commands of `nsd-local`, each in its own module, imported when it runs.

A new command is a function with typer's annotations and one line in `COMMANDS`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from nsd_local import __version__


class Command(NamedTuple):
    """Where a command's function is, and what `nsd-local --help` says about it without importing it."""

    module: str
    function: str
    help: str
    panel: str


ANSWER, MODELS, MEASURE = "Answer", "Models and machine", "Measure"

COMMANDS: dict[str, Command] = {
    "generate": Command("nsd_local.cli.generate", "generate", "Answer one prompt.", ANSWER),
    "chat": Command("nsd_local.cli.chat", "chat", "Talk in the terminal.", ANSWER),
    "ui": Command("nsd_local.cli.ui", "ui", "Talk in a local web page.", ANSWER),
    "pull": Command("nsd_local.cli.pull", "pull", "Fetch models.", MODELS),
    "list": Command("nsd_local.cli.catalog", "list_models", "List the named models and pairs.", MODELS),
    "show": Command("nsd_local.cli.catalog", "show", "Tell everything about a model or a pair.", MODELS),
    "rm": Command("nsd_local.cli.catalog", "rm", "Delete a model's files.", MODELS),
    "doctor": Command("nsd_local.cli.doctor", "doctor", "Look at this machine and this installation.", MODELS),
    "tune": Command("nsd_local.cli.tune", "tune", "Find the fastest settings of a pair on this machine.", MEASURE),
    "recommend": Command("nsd_local.cli.recommend", "recommend", "Say which pair fits this machine.", MODELS),
    "bench": Command("nsd_local.cli.bench", "bench", "Measure speed with and without drafting.", MEASURE),
    "compare": Command("nsd_local.cli.compare", "compare", "Set answers of several rules side by side.", MEASURE),
    "rules": Command("nsd_local.cli.rules", "rules", "List the verification rules.", MEASURE),
    "simulate": Command("nsd_local.cli.simulate", "simulate", "Replay recorded rounds under other rules.", MEASURE),
    "eval": Command("nsd_local.cli.eval", "evaluate", "Score a pair on tasks.", MEASURE),
    "sweep": Command("nsd_local.cli.sweep", "sweep", "Measure a grid of settings.", MEASURE),
    "report": Command("nsd_local.cli.report", "report", "Make a report of measurements.", MEASURE),
}


class LazyGroup(TyperGroup):
    """A group that knows its commands by name and imports one when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name, command in COMMANDS.items() if importlib.util.find_spec(command.module)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = COMMANDS.get(cmd_name)
        if command is None or not importlib.util.find_spec(command.module):
            return None
        if _only_lists(ctx):
            return _stand_in(cmd_name, command)
        function = getattr(importlib.import_module(command.module), command.function)
        return _typer_command(cmd_name, function, command)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        ctx.meta[_RUNS] = True
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            # The commands themselves stand for the names that typer would search for a similar one.
            self.commands = {name: _stand_in(name, COMMANDS[name]) for name in self.list_commands(ctx)}
        return super().resolve_command(ctx, args)


class LeafCommand(TyperCommand):
    """A command; one that takes a prompt knows the mistake of leaving its quotes out."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except _ARGUMENTS_WRONG as error:
            if "extra argument" in error.message and any(parameter.name == "prompt" for parameter in self.params):
                error.message += f'. Put the prompt into quotes: nsd-local {self.name} "several words"'
            raise


_ARGUMENTS_WRONG: Any = typer.BadParameter.__base__  # click's UsageError, wherever this typer keeps its click
_RUNS = "nsd_local.runs"


def _only_lists(ctx: Any) -> bool:
    """Is the group writing its help, rather than about to call a command?"""
    return not ctx.meta.get(_RUNS, False)


def _stand_in(name: str, command: Command) -> Any:
    def nothing() -> None:
        return None

    return _typer_command(name, nothing, command)


def _typer_command(name: str, function: Any, command: Command) -> Any:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    said = function.__doc__ or command.help
    app.command(name, cls=LeafCommand, short_help=command.help, help=said, rich_help_panel=command.panel)(function)
    return get_command(app)


def _group() -> Any:
    app = typer.Typer(cls=LazyGroup, add_completion=False, pretty_exceptions_enable=False)

    @app.callback(invoke_without_command=False)
    def nsd_local(
        version: Annotated[bool, typer.Option("--version", is_eager=True, help="Show the version.")] = False,
        debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
    ) -> None:
        """Faster local inference of GGUF models with Nucleus Speculative Decoding."""
        if version:
            print(f"nsd-local {__version__}")
            raise typer.Exit

    return get_command(app)


def run(arguments: Sequence[str]) -> int:
    """Run one command; returns its exit code. `NsdError`s pass through to the caller."""
    try:
        _group().main(args=list(arguments), prog_name="nsd-local", standalone_mode=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    return 0
