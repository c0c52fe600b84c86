"""Conversations as plain JSON values, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import accumulate
from typing import Any, TypeVar, cast

from nsd_local.chat.conversation import Conversation
from nsd_local.chat.turn import Answer, Turn, title_of
from nsd_local.decoding.records import Result
from nsd_local.decoding.records_io import round_from_dict, round_to_dict
from nsd_local.decoding.settings import Settings
from nsd_local.errors import NsdError
from nsd_local.sampling.law import Law
from nsd_local.sampling.penalties import Penalties
from nsd_local.verification.rules import make

FORMAT = 1
DIGITS = 6  # significant digits of the recorded probabilities and times
Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Heading:
    """A conversation in a list."""

    id: str
    title: str
    updated: str  # UTC, ISO 8601
    turns: int


class ArchiveError(NsdError):
    """What was read is not a conversation of this program."""


class VersionError(ArchiveError):
    """A conversation that another version of this program has written."""


def pack(conversation: Conversation) -> dict[str, Any]:
    """A conversation as a JSON object."""
    return {
        "format": FORMAT,
        "id": conversation.id,
        "title": conversation.title if conversation.named else "",
        "created": conversation.created,
        "updated": conversation.updated,
        "system": conversation.system,
        "ctx_shift": conversation.ctx_shift,
        "settings": pack_settings(conversation.settings),
        "turns": [
            {"user": turn.user, "answer": None if turn.answer is None else _pack_answer(turn.answer)}
            for turn in conversation.turns
        ],
    }


def unpack(value: object) -> Conversation:
    """A conversation from `pack`'s object. Raises ArchiveError where it is none, VersionError where it is another's."""
    return _checked(value, _unpack)


def heading(value: object) -> Heading:
    """What a list shows of `pack`'s object, without its records; raises as `unpack`."""
    return _checked(value, _heading)


def pack_settings(settings: Settings) -> dict[str, Any]:
    """Settings as a JSON object."""
    rule = {"name": settings.rule.name, **asdict(settings.rule)}
    return {**asdict(settings), "rule": rule}


def unpack_settings(value: Mapping[str, Any]) -> Settings:
    """Settings from `pack_settings`' object; an unknown key is an error. What was written before there was `block`
    was judged token by token."""
    known = {"block": False, **value}
    rule = dict(known.pop("rule"))
    return Settings(
        law=Law(**known.pop("law")),
        penalties=Penalties(**known.pop("penalties")),
        logit_bias=tuple((int(token), float(amount)) for token, amount in known.pop("logit_bias")),
        rule=make(rule.pop("name"), rule),
        stop=tuple(known.pop("stop")),
        **known,
    )


def _checked(value: object, read: Callable[[Mapping[str, Any]], Part]) -> Part:
    known = cast("Mapping[str, Any]", value)
    try:
        if known["format"] == FORMAT:
            return read(known)
        raise VersionError(
            f"This conversation has format {known['format']}", f"this version of nsd-local reads {FORMAT}", "Update it"
        )
    except VersionError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, NsdError) as error:
        raise ArchiveError("This is not a conversation of nsd-local", f"{type(error).__name__}: {error}") from error


def _heading(value: Mapping[str, Any]) -> Heading:
    users = [str(turn["user"]) for turn in value["turns"]]
    title = str(value["title"]) or title_of(users[0] if users else "")
    return Heading(str(value["id"]), title, str(value["updated"]), len(users))


def _unpack(value: Mapping[str, Any]) -> Conversation:
    conversation = Conversation(
        str(value["system"]),
        unpack_settings(value["settings"]),
        ctx_shift=bool(value["ctx_shift"]),
        title=str(value["title"]),
    )
    conversation.id = str(value["id"])
    conversation.created, conversation.updated = str(value["created"]), str(value["updated"])
    conversation.turns = [
        Turn(str(turn["user"]), None if turn["answer"] is None else _unpack_answer(turn["answer"]))
        for turn in value["turns"]
    ]
    return conversation


def _pack_answer(answer: Answer) -> dict[str, Any]:
    rounds = [round_to_dict(round_) for round_ in answer.rounds]
    times = [round_.pop("times") for round_ in rounds]
    tokens = [round_.pop("tokens") for round_ in rounds]
    result = None
    if answer.result is not None:
        names = [field.name for field in fields(Result) if field.name not in ("rounds", "text")]
        result = {name: _short(getattr(answer.result, name)) for name in names}
    return {
        "text": answer.text,
        "opened": answer.opened,
        "model": answer.model,
        "ids": list(answer.ids),
        "settings": None if answer.settings is None else pack_settings(answer.settings),
        "result": result,
        "rounds": _columns(rounds),
        "times": _columns(times),
        "tokens": _columns([token for group in tokens for token in group]),
        "token_counts": [len(group) for group in tokens],
    }


def _unpack_answer(value: Mapping[str, Any]) -> Answer:
    counts, tokens, times = value["token_counts"], _rows(value["tokens"]), _rows(value["times"])
    if sum(counts) != len(tokens):
        raise ValueError(f"{len(tokens)} tokens in rounds of {sum(counts)}")
    ends = list(accumulate(counts))
    groups = [tokens[end - count : end] for count, end in zip(counts, ends, strict=True)]
    rounds = tuple(
        round_from_dict({**row, "tokens": group, "times": time})
        for row, group, time in zip(_rows(value["rounds"]), groups, times, strict=True)
    )
    text, result = str(value["text"]), value["result"]
    if result is not None:
        result = Result(**{**result, "notices": tuple(result["notices"])}, text=text, rounds=rounds)
    return Answer(
        text=text,
        ids=tuple(value["ids"]),
        opened=str(value["opened"]),
        model=str(value["model"]),
        rounds=rounds,
        result=result,
        settings=None if value["settings"] is None else unpack_settings(value["settings"]),
    )


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Objects with the same keys as one list per key: a third of the size."""
    return {name: [_short(row[name]) for row in rows] for name in (rows[0] if rows else ())}


def _rows(columns: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _short(value: Any) -> Any:
    """The value with few digits, for what was measured."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return [_short(part) for part in value] if isinstance(value, list | tuple) else value
