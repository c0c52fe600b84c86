"""Text of a model on a terminal: nothing in it may act."""

from __future__ import annotations

# Control characters of an answer could move the cursor, set the title, or write to the clipboard: they are shown as
# pictures (U+2400 and up), line feed and tab apart.
PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
PICTURES |= dict.fromkeys(range(0x80, 0xA0), 0xFFFD)


def visible(text: str) -> str:
    """The text without control characters, of the same length."""
    return text.translate(PICTURES)
