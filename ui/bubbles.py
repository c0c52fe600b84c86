"""Conversations as the chat widget shows them: one or more bubbles per message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nsd_local.chat.message import Message
from nsd_local.chat.reasoning import split

from .attachments import detach
from .markup import fenced, markdown

Bubble = dict[str, Any]


def bubbles(messages: Sequence[Message]) -> tuple[list[Bubble], list[int]]:
    """The bubbles of a conversation, and for each the index of its message. System prompts are not shown."""
    shown: list[Bubble] = []
    owners: list[int] = []
    for i, message in enumerate(messages):
        if message.role == "system":
            continue
        made = question(message.content) if message.role == "user" else answer(message.content)
        shown += made
        owners += [i] * len(made)
    return shown, owners


def question(content: str) -> list[Bubble]:
    """What a person wrote, each attached file folded up below it."""
    text, attachments = detach(content)
    made: list[Bubble] = [{"role": "user", "content": markdown(text)}]
    for attachment in attachments:
        made.append(
            {
                "role": "user",
                "content": fenced(attachment.text),
                "metadata": {"title": f"📎 {attachment.title}", "status": "done"},
            }
        )
    return made


def answer(content: str, *, opened: str = "", running: bool = False) -> list[Bubble]:
    """What the model wrote, its reasoning folded up before it (and open while it is being written)."""
    parts = split(content, opened)
    made: list[Bubble] = []
    if parts.reasoning:
        thinking = running and not parts.closed
        made.append(
            {
                "role": "assistant",
                "content": markdown(parts.reasoning),
                "metadata": {"title": "Reasoning", "status": "pending" if thinking else "done"},
            }
        )
    if parts.answer or not made:
        made.append({"role": "assistant", "content": markdown(parts.answer) or "…"})
    return made
