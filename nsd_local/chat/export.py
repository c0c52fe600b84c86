"""A conversation for other programs and for people: Markdown and JSON."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from nsd_local.chat.conversation import Conversation
from nsd_local.chat.reasoning import split
from nsd_local.chat.turn import Answer
from nsd_local.decoding.summary import Summary


def to_markdown(conversation: Conversation) -> str:
    """The conversation as Markdown: what was said stays Markdown, reasoning is folded away."""
    parts = [f"# {_line(conversation.title)}"]
    if conversation.system:
        parts += ["## System", conversation.system]
    for turn in conversation.turns:
        parts += ["## User", turn.user]
        if turn.answer is not None:
            parts += ["## Assistant", *_answer(turn.answer)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def to_json(conversation: Conversation) -> str:
    """The conversation as JSON: messages as chat interfaces share them, with the numbers of each answer."""
    messages: list[dict[str, Any]] = []
    if conversation.system:
        messages.append({"role": "system", "content": conversation.system})
    for turn in conversation.turns:
        messages.append({"role": "user", "content": turn.user})
        if turn.answer is not None:
            messages.append(_message(turn.answer))
    document = {
        "title": conversation.title,
        "created": conversation.created,
        "updated": conversation.updated,
        "messages": messages,
    }
    return json.dumps(document, ensure_ascii=False, indent=2) + "\n"


def file_name(conversation: Conversation, ending: str) -> str:
    """A file name that every system takes, from the title."""
    words = re.sub(r"[^\w-]+", "-", conversation.title).strip("-").lower()
    return f"{words[:60] or 'conversation'}.{ending}"


def _answer(answer: Answer) -> list[str]:
    parts = split(answer.text, answer.opened)
    folded = f"<details><summary>Reasoning</summary>\n\n{parts.reasoning}\n\n</details>"
    return [part for part in (folded if parts.reasoning else "", parts.answer) if part]


def _message(answer: Answer) -> dict[str, Any]:
    parts = split(answer.text, answer.opened)
    message: dict[str, Any] = {"role": "assistant", "content": parts.answer}
    if parts.reasoning:
        message["reasoning_content"] = parts.reasoning
    if answer.rounds:
        message["model"] = answer.model
        message["statistics"] = _statistics(answer.summary)
    return message


def _statistics(summary: Summary) -> dict[str, Any]:
    return {
        "tokens": len(summary.tokens),
        "tokens_per_second": summary.tokens_per_second,
        "kinds": dict(summary.kinds),
        "acceptance_rate": summary.acceptance_rate,
        "mean_accepted_length": summary.mean_accepted_length,
        "deviation_sum": None if math.isnan(summary.deviation_sum) else summary.deviation_sum,
    }


def _line(text: str) -> str:
    return " ".join(text.split())
