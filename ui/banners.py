"""What a person must see before anything else: drafting that is off, slower or failed, a model that is missing."""

from __future__ import annotations

from typing import Any

from .live import Live
from .session import EngineState, Session

SLOWER = 0.97  # below this share of plain decoding, drafting is called slower
ENOUGH = 48  # tokens; fewer say little about speed
Banner = dict[str, Any]  # {"level", "title", "text", "done", "total", "action", "label"}


def banners(session: Session, last: Live | None, problems: list[str]) -> list[Banner]:
    """The lines at the top of the page, the gravest first."""
    shown = [*_engine(session.state), *(_warn("Please note.", problem) for problem in problems)]
    if session.state.state == "ready":
        shown += _pair(session)
        if last is not None:
            shown += _answer(last)
    return shown


def _warn(title: str, text: str, **more: Any) -> Banner:
    return {"level": "warn", "title": title, "text": text, **more}


def _engine(state: EngineState) -> list[Banner]:
    if state.state == "failed":
        text = " ".join(part if part.endswith(".") else f"{part}." for part in (state.why, state.do) if part)
        return [
            {
                "level": "error",
                "title": f"{state.what.rstrip('.')}.",
                "text": text,
                "action": "retry",
                "label": "Try again",
            }
        ]
    if state.state == "missing":
        return [
            _warn(f"{state.what}.", "Nothing is downloaded without your word.", action="fetch", label="Download now")
        ]
    if state.state == "opening" and state.total:
        text = f"{state.done / 1e6:,.0f} of {state.total / 1e6:,.0f} MB"
        return [
            {
                "level": "info",
                "title": state.what,
                "text": text,
                "done": state.done,
                "total": state.total,
                "action": "halt",
                "label": "Stop",
            }
        ]
    if state.state == "none" and state.what:
        return [_warn(f"{state.what.rstrip('.')}.", "", action="retry", label="Go on")]
    return []


def _pair(session: Session) -> list[Banner]:
    """What loading had to say: a draft that failed or does not fit."""
    engine = session.engine
    if engine is None:
        return []
    off = engine.decoder.off
    notices = getattr(engine, "notices", ())
    shown = [_warn("Please note.", notice) for notice in notices if notice != off]
    if off:
        shown.insert(0, _warn("Drafting is off.", f"{_sentence(off)} Choose a draft under Models to change that."))
    return shown


def _answer(live: Live) -> list[Banner]:
    """What the last answer showed."""
    if live.state == "failed":
        return [{"level": "error", "title": "The last request failed.", "text": live.note}]
    result, meters = live.result, live.meters
    if result is None or not live.ended:
        return []
    if (
        meters.drafted
        and meters.ratio is not None
        and meters.ratio < SLOWER
        and meters.tokens >= ENOUGH
        and meters.plain
    ):
        text = (
            f"{meters.average:.1f} tok/s against {meters.plain[0]:.1f} plain, {meters.plain[1]}. "
            "Set k to auto, or try prompt lookup (ngram) or no draft under Models."
        )
        return [_warn("Drafting was slower here.", text)]
    return [
        _warn("Please note.", _sentence(notice))
        for notice in result.notices
        if not notice.startswith("drafting is off")
    ]


def _sentence(text: str) -> str:
    text = text.removeprefix("drafting is off: ").strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
