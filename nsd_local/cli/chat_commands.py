"""The commands of `nsd-local chat`: `/help` and its like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from rich.console import Console
from rich.text import Text

from nsd_local.chat.conversation import Conversation
from nsd_local.cli.chat_settings import changed, described, effective, line, switched
from nsd_local.cli.footer import footer
from nsd_local.cli.generate import KindColours
from nsd_local.cli.palette import rich_style
from nsd_local.cli.status import status
from nsd_local.cli.visible import visible
from nsd_local.decoding.records import Times
from nsd_local.decoding.summary import Summary
from nsd_local.errors import UsageError
from nsd_local.verification.rules import RULES
from nsd_local.verification.verdict import KINDS, MEANINGS

if TYPE_CHECKING:
    from nsd_local.cli.chat import Talk


CTX_SHIFT = "On lets the oldest turns go when the context is full."


class Quit(Exception):  # noqa: N818  # not an error: the user wants to leave
    """Leave the chat."""


class Command(NamedTuple):
    usage: str
    help: str
    run: Callable[[Talk, str], None]


def run(talk: Talk, line: str) -> None:
    """Runs a line that begins with a slash."""
    name, _, argument = line[1:].partition(" ")
    command = COMMANDS.get(name.strip().lower())
    if command is None:
        hint = f"Did you mean /{near}?" if (near := _nearest(name)) else "/help lists the commands."
        raise UsageError(f"There is no command /{name.strip()}", "", f"{hint} // sends a text that begins with a slash")
    command.run(talk, argument.strip())


def _nearest(name: str) -> str:
    """The command probably meant: one that the name continues or abbreviates goes before one that looks alike."""
    name = name.strip().lower()
    for command in COMMANDS:
        if len(name) >= 2 and (name.startswith(command) or command.startswith(name)):
            return command
    return next(iter(get_close_matches(name, COMMANDS, n=1)), "")


def show_help(talk: Talk, argument: str) -> None:
    for command in COMMANDS.values():
        print(f"  {command.usage:<22} {command.help}")
    print('  """                    begins and ends a text of several lines')
    print("  //…                    sends a text that begins with a slash")
    print("  Ctrl-C stops an answer; Ctrl-D ends the chat.")


def system(talk: Talk, argument: str) -> None:
    if argument:
        talk.conversation.system = "" if argument == "-" else argument
    print(f"system prompt: {talk.conversation.system or 'none'}")


def set_(talk: Talk, argument: str) -> None:
    name, _, value = argument.partition(" ")
    if not argument:
        print("\n".join(described(talk.options)))
        shifts = talk.conversation.ctx_shift
        print(line("*" if shifts else " ", "ctx-shift", "on" if shifts else "off", CTX_SHIFT))
        return
    if not value.strip():
        raise UsageError(
            f"/set {name} needs a value", "", f"Such as /set temperature 0.7; /set {name} default resets it"
        )
    if name == "ctx-shift":
        talk.conversation.ctx_shift = switched(name, value.strip())
        print(f"{name} {value.strip()}")
        return
    talk.options = changed(talk.options, name, value.strip())
    talk.conversation.settings = talk.options.settings()
    print(f"{name} {effective(talk.options, name)}")


def rule(talk: Talk, argument: str) -> None:
    if argument:
        talk.options = changed(talk.options, "rule", argument)
        talk.conversation.settings = talk.options.settings()
    current, form = talk.conversation.settings.rule, talk.conversation.settings.verified_by
    given = {entry.name: getattr(current, entry.name) for entry in fields(current)}
    values = ", ".join(f"{name} {'none' if value is None else value}" for name, value in given.items())
    law = "keeps the target's law" if current.lossless else "deviates from the target's law, and says how much"
    print(f"rule: {current.name}{f' ({values})' if values else ''}: {form.formula}; {law}")
    if not argument:
        print(f"there are: {', '.join(RULES)}")


def stats(talk: Talk, argument: str) -> None:
    answers = [turn.answer for turn in talk.conversation.turns if turn.answer is not None and turn.answer.rounds]
    if not answers:
        raise UsageError("There is no answer yet", "", "Say something first")
    last = answers[-1]
    if last.result is not None:
        result = last.result
        print(f"last answer: {footer(result)}")
        print(
            f"its prompt: {result.prompt_tokens:,} tokens, {result.prompt_n:,} read in {result.prompt_s:.2f} s, "
            f"{result.cache_n:,} reused; seed {result.seed}"
        )
    counts, n = last.summary.kinds, len(last.summary.tokens)
    print("its tokens: " + ", ".join(f"{counts[kind] / n:.0%} {kind}" for kind in KINDS if counts[kind]))
    times, total = last.summary.times, last.summary.times.total
    if total:
        parts = [entry.name for entry in fields(Times)]
        print("its time: " + ", ".join(f"{getattr(times, part) / total:.0%} {part}" for part in parts))
    whole = Summary([round_ for answer in answers for round_ in answer.rounds])
    speed = f", {whole.tokens_per_second:.1f} tok/s" if whole.tokens_per_second else ""
    print(
        f"conversation: {len(answers)} answer{'' if len(answers) == 1 else 's'}, {len(whole.tokens):,} tokens{speed}, "
        f"deviation {whole.deviation_sum:.2g} total"
    )


def kinds(talk: Talk, argument: str) -> None:
    if argument not in ("", "on", "off"):
        raise UsageError("/kinds takes on or off")
    talk.show_kinds = argument == "on" if argument else not talk.show_kinds
    print(f"kinds of tokens: {'shown' if talk.show_kinds else 'not shown'}")
    if not talk.show_kinds:
        return
    talk.legend_told = True
    console = Console(highlight=False, soft_wrap=True)
    for kind, meaning in MEANINGS.items():
        console.print(Text("  ").append(kind, style=rich_style(kind)).append(f": {meaning}"))
    turns = talk.conversation.turns
    if turns and turns[-1].answer is not None and turns[-1].answer.tokens:
        answer = turns[-1].answer
        text = visible("".join(token.text for token in answer.tokens))
        console.print(KindColours().paint(answer.tokens, text))


def retry(talk: Talk, argument: str) -> None:
    talk.retry()


def undo(talk: Talk, argument: str) -> None:
    status(f"taken back: {talk.conversation.undo()}")


def save(talk: Talk, argument: str) -> None:
    if not talk.conversation.turns:
        raise UsageError("There is nothing to save", "the conversation is empty")
    if argument:
        talk.conversation.title = argument
    path = talk.store.save(talk.conversation)
    print(f"saved as {talk.conversation.title!r} in {path}")


def load(talk: Talk, argument: str) -> None:
    if not argument:
        entries = talk.store.list()
        for entry in entries:
            print(f"  {entry.id[:8]}  {entry.updated[:16].replace('T', ' ')}  {entry.turns:>3} turns  {entry.title}")
        if not entries:
            print(f"no conversations in {talk.store.folder}")
    else:
        try:
            found = talk.store.find(argument)
        except UsageError as error:
            raise UsageError(error.what, error.why, "/load alone lists them, with their ids") from None
        loaded = talk.store.load(found.id)
        loaded.settings, loaded.ctx_shift = talk.conversation.settings, talk.conversation.ctx_shift
        talk.conversation = loaded
        print(f"loaded {loaded.title!r}: {len(loaded.turns)} turns; the settings stay as they are here")
    for problem in talk.store.problems:
        status(problem)
    talk.store.problems.clear()


def reset(talk: Talk, argument: str) -> None:
    old = talk.conversation
    # A new one: saving it must not overwrite what was saved before.
    talk.conversation = Conversation(old.system, old.settings, ctx_shift=old.ctx_shift)
    status("the conversation is empty again")


def quit_(talk: Talk, argument: str) -> None:
    raise Quit


COMMANDS = {
    "help": Command("/help", "this list", show_help),
    "system": Command("/system [TEXT]", "show or set the system prompt; - removes it", system),
    "set": Command("/set [NAME VALUE]", "show or change the settings of the next answers", set_),
    "rule": Command("/rule [RULE]", "show or change the verification rule", rule),
    "stats": Command("/stats", "the numbers of the last answer and the conversation", stats),
    "kinds": Command("/kinds [on|off]", "colour tokens by how they came about", kinds),
    "retry": Command("/retry", "answer the last message again", retry),
    "undo": Command("/undo", "take the last message and its answer back", undo),
    "save": Command("/save [TITLE]", "keep the conversation", save),
    "load": Command("/load [TITLE]", "list the kept conversations, or go on with one", load),
    "reset": Command("/reset", "forget the conversation, keep system prompt and settings", reset),
    "quit": Command("/quit", "end the chat", quit_),
}
