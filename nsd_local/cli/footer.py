"""The line under an answer: how fast it came, what was kept, and what that cost."""

from __future__ import annotations

from nsd_local.decoding.records import Result
from nsd_local.decoding.summary import Summary


def footer(result: Result) -> str:
    """Such as `214 tokens · 24.1 tok/s · kept 71 % of drafts (63 % ratio + 8 % nucleus) · 4.4 tokens per pass · …`."""
    summary = Summary(result.rounds)
    n = len(summary.tokens)
    parts = [f"{n} token{'' if n == 1 else 's'}"]
    if summary.tokens_per_second:
        parts.append(f"{summary.tokens_per_second:.1f} tok/s")
    if summary.drafted:
        ratio, nucleus = (100 * summary.kinds[kind] / summary.drafted for kind in ("ratio", "nucleus"))
        kept = f"kept {ratio + nucleus:.0f} % of drafts"
        if nucleus:
            kept += f" ({ratio:.0f} % ratio + {nucleus:.0f} % nucleus)"
        parts += [kept, f"{summary.mean_accepted_length:.1f} tokens per pass"]
        parts.append(f"deviation {summary.deviation_sum:.2g} total")
    elif n:
        parts.append("no drafting")
    if result.finish_reason in ("length", "cancelled"):
        parts.append({"length": "stopped at the length limit", "cancelled": "stopped"}[result.finish_reason])
    return " · ".join(parts)
