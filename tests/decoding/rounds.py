"""Round records made by hand, for tests of what reads them."""

from __future__ import annotations

from nsd_local.decoding.records import Round, Times, Token


def timed(
    *,
    k: int,
    verify: float,
    draft: float = 0.0,
    kept: tuple[float, ...] = (),
    accepted: int = 0,
    source: str = "model",
    n_past: int = 0,
) -> Round:
    """A round with these times in seconds and acceptance probabilities `kept` at its processed positions."""
    token = Token(0, "x", "plain", 0.5, None, 1, None, 0.0, 0)
    return Round(
        index=0,
        n_past=n_past,
        k=k,
        why="",
        source=source if k else "",
        drafted=(0,) * k,
        tokens=(token,) * (accepted + 1),
        accepted=accepted,
        divergence=tuple(1.0 - value for value in kept),
        excess=(0.0,) * len(kept),
        deviation=(0.0,) * len(kept),
        rejected_rank=None,
        rejected_in_nucleus=None,
        times=Times(draft=draft, verify=verify),
    )
