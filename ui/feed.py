"""What the page's script asks for beside Gradio's own events: the state of everything, old answers, exports."""

from __future__ import annotations

from typing import Any

from nsd_local.chat.export import file_name, to_json, to_markdown

from .attachments import detach
from .banners import banners
from .race import Races
from .session import Session
from .talk import Answering, Talk

# What is not looked at (the meters beside the text, the text behind the tokens) is updated less often by this factor.
# It is there at once when the view is switched.
BESIDE = 2.5


class Feed:
    """Answers the poll. Everything here is small and quick: it runs beside a decoding engine."""

    def __init__(self, session: Session, talk: Talk, races: Races) -> None:
        self.session, self.talk, self.races = session, talk, races

    async def live(self, ask: dict[str, Any]) -> dict[str, Any]:
        """The state of the engine, the banners, this conversation's answer, and the race."""
        key = str(ask.get("conversation", ""))
        running = self.talk.running(key)
        pace = self.session.pace
        if running is not None:
            text = ask.get("view") != "tokens"
            running.pace = max(running.watch(text, BESIDE * pace), min(5.0 * float(ask.get("lag", 0.0)), 2.0))
            if text and running.live.state == "writing":
                pace *= BESIDE
        job = running or self.talk.last(key)
        problems = [text for text in (self.talk.memory.problem, *self.talk.store.problems[-2:]) if text]
        reply: dict[str, Any] = {
            "status": {
                "engine": self.session.state.state,
                "jobs": len(self.session.jobs()),
                "pace": pace,
                "label": label(self.session),
            },
            "banners": banners(self.session, job.live if job else None, problems),
            "job": self._job(job, ask) if job else None,
            "kept": None if job else self._kept(key, str(ask.get("kept", ""))),
            "race": self.races.view(int(ask.get("race", 0))),
        }
        return reply

    def _job(self, job: Answering, ask: dict[str, Any]) -> dict[str, Any]:
        same = ask.get("job") == job.id
        rows = int(ask.get("rows", 0)) if same else 0
        rounds = int(ask.get("rounds", 0)) if same else 0
        view = job.live.view(rows, rounds)
        return {"id": job.id, "ahead": self.session.ahead(job), "ended": job.finished.is_set(), **view}

    def _kept(self, key: str, have: str) -> dict[str, Any] | None:
        """The meters of the conversation's last answer, read from its record; None where the page has them."""
        conversation = self.talk.get(key) if key else None
        turns = conversation.turns if conversation else []
        now = f"{key} {len(turns)}"
        if now == have:
            return None
        answer = turns[-1].answer if turns else None
        record = self.talk.answers.of(key, len(turns) - 1, answer.text) if answer else None
        plain = self.talk.speeds.of(answer.model) if answer else None
        return {"key": now, "meters": record.meters(plain).view() if record else None}

    async def answers(self, ask: dict[str, Any]) -> list[dict[str, Any]]:
        """The finished turns of a conversation, answers as token rows where their records are kept."""
        conversation = self.talk.get(str(ask.get("conversation", "")))
        if conversation is None:
            return []
        turns: list[dict[str, Any]] = []
        for i, turn in enumerate(conversation.turns):
            turns.append({"role": "user", "text": _said(turn.user)})
            if turn.answer is None:
                continue
            record = self.talk.answers.of(conversation.id, i, turn.answer.text)
            turns.append(
                {
                    "role": "assistant",
                    "text": turn.answer.text,
                    "rows": record.rows() if record else None,
                    "summary": record.summary() if record else "",
                }
            )
        return turns

    async def export(self, ask: dict[str, Any]) -> dict[str, str] | None:
        """A conversation as a file: {"name", "text"}; `kind` is md or json."""
        conversation = self.talk.get(str(ask.get("conversation", "")))
        if conversation is None:
            return None
        kind = "json" if ask.get("kind") == "json" else "md"
        write = to_json if kind == "json" else to_markdown
        return {"name": file_name(conversation, kind), "text": write(self.talk.complete(conversation))}


def _said(content: str) -> str:
    text, attached = detach(content)
    return "\n".join([text, *(f"📎 {attachment.title}" for attachment in attached)])


def label(session: Session) -> str:
    """One line on the engine: what is loaded, or what is being done about it."""
    state = session.state
    engine = session.engine
    if state.state == "ready" and engine is not None:
        names = engine.describe()
        target, draft = names["target"], names["draft"]
        if draft:
            return f"{target['name']} · draft {draft['name']}"
        return f"{target['name']} · {'no drafting' if engine.decoder.proposer is None else 'prompt lookup'}"
    if state.state == "opening":
        return f"{state.what} {state.done / state.total:.0%}" if state.total else state.what
    return {"failed": "No model loaded", "missing": "Model not downloaded", "none": "No model loaded"}.get(
        state.state, ""
    )
