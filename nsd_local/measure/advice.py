"""What this machine makes of a pair: expected speed by draft length, the best setting, and one sentence."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nsd_local.catalog.home import home
from nsd_local.catalog.store import write_atomically
from nsd_local.decoding.breakeven import break_even, expected_tokens
from nsd_local.decoding.costs import Costs
from nsd_local.measure.simulate import predict
from nsd_local.measure.trace import Trace
from nsd_local.verification.rule import Rule

PAYS = 1.05  # a smaller expected gain is no reason to draft
REPEATING = 0.95  # acceptance of prompt lookup while a text repeats
CONTEXT = 256  # tokens in memory where nothing else is known


@dataclass(frozen=True, slots=True)
class Row:
    """What one draft length is expected to do."""

    k: int
    tokens: float  # per pass
    rate: float  # tokens per second
    gain: float  # relative to plain decoding


@dataclass(frozen=True, slots=True)
class Advice:
    """The table, and what follows from it. `rows` is empty where there is no draft model or its acceptance is unknown.

    `lookup` is prompt lookup while a text repeats.
    """

    target: str
    draft: str
    rule: str
    plain: float  # tokens per second without drafting
    rows: tuple[Row, ...]
    lookup: Row
    needed: float | None  # acceptance from which the draft model pays; None if it never does
    verdict: str

    @property
    def best(self) -> Row:
        """The fastest row; plain decoding where none pays."""
        rows = [row for row in self.rows if row.gain >= PAYS]
        return max(rows, key=lambda row: row.rate, default=Row(0, 1.0, self.plain, 1.0))

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "best": asdict(self.best)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Advice:
        values = {key: value for key, value in data.items() if key != "best"}
        rows = tuple(Row(**row) for row in data["rows"])
        return cls(**{**values, "rows": rows, "lookup": Row(**data["lookup"])})


def advise(costs: Costs, traces: Sequence[Trace], rule: Rule, *, target: str, draft: str) -> Advice:
    """Expected speeds by the measured costs and, where `traces` of the pair exist, its measured acceptance."""
    plain = costs.round(0, CONTEXT)
    lengths = [n - 1 for n in costs.widths]
    rounds = {k: costs.round(k, CONTEXT) for k in lengths if k}
    lookup = max((_repeating(costs, k, plain) for k in lengths), key=lambda row: row.rate)
    rows = tuple(_row(costs, traces, rule, k) for k in lengths) if traces and costs.has_draft else ()
    advice = Advice(
        target=target,
        draft=draft,
        rule=rule.name,
        plain=rows[0].rate if rows else 1.0 / plain,
        rows=rows,
        lookup=lookup,
        needed=break_even(rounds, plain / PAYS) if costs.has_draft else None,
        verdict="",
    )
    return Advice(**{**_fields(advice), "verdict": _verdict(advice, costs, traces, rule)})


def _fields(advice: Advice) -> dict[str, Any]:
    return {name: getattr(advice, name) for name in Advice.__slots__}


def _row(costs: Costs, traces: Sequence[Trace], rule: Rule, k: int) -> Row:
    plain, expected = predict(traces, costs, 0, rule), predict(traces, costs, k, rule)
    gain = expected.tokens_per_second / plain.tokens_per_second
    return Row(k, expected.mean_accepted_length, expected.tokens_per_second, gain)


def _repeating(costs: Costs, k: int, plain: float) -> Row:
    tokens = expected_tokens(REPEATING, k)
    rate = tokens / costs.round(k, CONTEXT, source="ngram")
    return Row(k, tokens, rate, rate * plain)


def _verdict(advice: Advice, costs: Costs, traces: Sequence[Trace], rule: Rule) -> str:
    best = advice.best
    n = best.k + 1 if best.k else min(4, max(costs.widths))
    price = costs.verify(n, CONTEXT) / costs.verify(1, CONTEXT)
    said = f"On this machine the target verifies {n} tokens for the price of {price:.1f}"
    lookup = advice.lookup
    repeats = f"prompt lookup gives up to {lookup.gain:.1f} times plain decoding on text that repeats"
    if lookup.gain < PAYS:
        repeats = "not even prompt lookup pays"
    if not costs.has_draft:
        return f"{said}; there is no draft model, and {repeats}."
    if not advice.rows:
        return f"{said}; {_unmeasured(advice)}, and {repeats}."
    first = _mean_kept(traces, rule)
    if best.k:
        return (
            f"{said} and keeps {first:.0%} of {advice.draft}'s drafts, "
            f"so drafting {best.k} gives {best.gain:.2f} times plain decoding."
        )
    still = "; " + (repeats.replace("gives", "still gives") if lookup.gain >= PAYS else repeats)
    return f"{said} and keeps {first:.0%} of drafts, so drafting with {advice.draft} loses{still}."


def _unmeasured(advice: Advice) -> str:
    if advice.needed is None:
        return f"drafting with {advice.draft} loses even if nearly all drafts are kept"
    return f"drafting with {advice.draft} pays if more than {advice.needed:.0%} of its drafts are kept"


def _mean_kept(traces: Sequence[Trace], rule: Rule) -> float:
    kept = [value for trace in traces for value in trace.acceptance(rule)]
    return sum(kept) / len(kept)


def table(advice: Advice) -> list[tuple[str, ...]]:
    """Rows of text with a head, for a terminal or a page."""
    rows: list[tuple[str, ...]] = [("k", "tokens/pass", "tok/s", "x plain", "")]
    for row in advice.rows:
        mark = "best" if row.k == advice.best.k else ""
        rows.append((str(row.k), f"{row.tokens:.2f}", f"{row.rate:.1f}", f"{row.gain:.2f}", mark))
    if not advice.rows:
        rows.append(("0", "1.00", f"{advice.plain:.1f}", "1.00", ""))
    lookup = advice.lookup
    rows.append((f"{lookup.k}", f"{lookup.tokens:.2f}", f"{lookup.rate:.1f}", f"{lookup.gain:.2f}", "lookup, repeats"))
    return rows


def keep(advice: Advice) -> None:
    """For `doctor` to show; a cache that cannot be written is no loss."""
    path = home() / "tuning" / f"{_safe(advice.target)}+{_safe(advice.draft)}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(advice.to_dict(), indent=1, ensure_ascii=False))
    except OSError:
        return


def kept() -> list[Advice]:
    """What earlier tunings found, the latest first."""
    found = []
    for path in sorted((home() / "tuning").glob("*.json"), key=lambda path: -path.stat().st_mtime):
        try:
            data: Any = json.loads(path.read_text(encoding="utf-8"))
            found.append(Advice.from_dict(data))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


def _safe(name: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
