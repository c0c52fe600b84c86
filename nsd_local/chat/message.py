"""One message of a conversation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from nsd_local.errors import UsageError

Role = Literal["system", "user", "assistant"]
ROLES: tuple[Role, ...] = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True)
class Message:
    """Who said what. `content` is plain text: markup of special tokens in it stays text."""

    role: Role
    content: str

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise UsageError(f"A message's role must be one of {', '.join(ROLES)}, not {self.role!r}")

    @classmethod
    def of(cls, value: object) -> Message:
        """A message from `{"role": ..., "content": ...}`."""
        if isinstance(value, Message):
            return value
        if not isinstance(value, dict) or set(value) != {"role", "content"}:
            raise UsageError("A message is an object with exactly the keys role and content")
        role, content = value["role"], value["content"]
        if not isinstance(role, str) or not isinstance(content, str):
            raise UsageError("The role and the content of a message must be text")
        return cls(cast(Role, role), content)


def joined(messages: list[Message]) -> list[Message]:
    """The same messages with neighbours of one role joined by a blank line: many templates insist on turns.

    Neighbours arise where an answer was stopped before its first word.
    """
    result: list[Message] = []
    for message in messages:
        if result and result[-1].role == message.role:
            both = f"{result[-1].content}\n\n{message.content}" if result[-1].content else message.content
            result[-1] = Message(message.role, both)
        else:
            result.append(message)
    return result
