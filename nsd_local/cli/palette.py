"""How the kinds of tokens look: one colour-blind-safe palette (after Okabe and Ito) for terminal and app."""

from __future__ import annotations

from dataclasses import dataclass

from nsd_local.verification.verdict import Kind


@dataclass(frozen=True, slots=True)
class Look:
    """A colour and a text style, so that no kind is told by colour alone."""

    colour: str  # #rrggbb
    style: str  # rich style beside the colour


LOOKS: dict[Kind, Look] = {
    "ratio": Look("#009e73", ""),
    "nucleus": Look("#e69f00", "underline"),
    "recovered": Look("#d55e00", "bold"),
    "bonus": Look("#56b4e9", "italic"),
    "plain": Look("", ""),
}


def rich_style(kind: Kind) -> str:
    """The rich style of a kind, such as `underline #e69f00`."""
    look = LOOKS[kind]
    return f"{look.style} {look.colour}".strip()
