"""Text of people and models, made safe to show as Markdown: HTML is shown, never rendered; no image is fetched.

The chat shows Markdown. HTML in it would be sanitised and rendered, a script would vanish, and an image would make the
browser fetch an address that a model chose. So a zero-width mark goes between `<` and a tag name and between `!` and
`[`: the text looks the same, and Markdown no longer reads it as a tag or an image. `unmark` (here, and in the page's
script for everything that is copied) takes the marks away again. Code blocks and formulas stay as they are: Markdown
never renders what is inside them.
"""

from __future__ import annotations

import re

MARK = "\u2060"  # word joiner: no width, no line break
DELIMITERS = [
    {"left": "$$", "right": "$$", "display": True},
    {"left": "\\[", "right": "\\]", "display": True},
    {"left": "\\(", "right": "\\)", "display": False},
]

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_MATH = re.compile(r"\$\$.+?\$\$|\\\[.+?\\\]|\\\(.+?\\\)|(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
# `$x$` as pandoc reads it: no space inside the dollars, no digit after them, on one line.
_DOLLARS = re.compile(r"(?<![\\$\w])\$(?=[^\s$])([^$\n`]{1,400}?)(?<=[^\s\\])\$(?![\d$])")
_TAG = re.compile(r"<(?=[a-zA-Z/!?])")
_IMAGE = re.compile(r"!(?=\[)")
_MERMAID = re.compile(r"^(\s*)mermaid\b", re.IGNORECASE)


def markdown(text: str) -> str:
    """`text` for a Markdown view that must not render HTML, fetch images or draw diagrams."""
    out: list[str] = []
    for is_code, part in _blocks(text):
        out.append(part if is_code else _prose(part))
    return "".join(out)


def unmark(text: str) -> str:
    """What `markdown` was given, as far as marks go."""
    return text.replace(f"<{MARK}", "<").replace(f"!{MARK}[", "![")


def fenced(text: str, language: str = "") -> str:
    """`text` as a code block whose fence is longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _blocks(text: str) -> list[tuple[bool, str]]:
    """Splits into (is a fenced code block, text); a block that is not closed yet reaches to the end."""
    parts: list[tuple[bool, str]] = []
    start = 0
    position = 0
    while opening := _FENCE.search(text, position):
        mark, info = opening.group(1), opening.group(2)
        if mark[0] == "`" and "`" in info:
            position = opening.end()
            continue
        closing = re.compile(rf"^ {{0,3}}{re.escape(mark[0])}{{{len(mark)},}}[ \t]*$", re.MULTILINE)
        found = closing.search(text, opening.end())
        end = found.end() if found else len(text)
        parts.append((False, text[start : opening.start()]))
        parts.append((True, _block(text[opening.start() : end], mark)))
        start = position = end
    parts.append((False, text[start:]))
    return parts


def _block(block: str, mark: str) -> str:
    """A diagram language would be drawn, so it is named plain text."""
    head, _, rest = block.partition(mark)
    return head + mark + _MERMAID.sub(r"\1text", rest)


def _prose(text: str) -> str:
    """Marks what is neither a formula nor inline code."""
    out: list[str] = []
    start = 0
    for match in _MATH.finditer(text):
        out.append(_mark(text[start : match.start()]))
        out.append(match.group(0) if match.group(1) is None else _tags(match.group(0)))
        start = match.end()
    out.append(_mark(text[start:]))
    return "".join(out)


def _mark(text: str) -> str:
    out: list[str] = []
    start = 0
    for match in _DOLLARS.finditer(text):
        out.append(_tags(text[start : match.start()]))
        out.append(rf"\({match.group(1)}\)")
        start = match.end()
    out.append(_tags(text[start:]))
    return "".join(out)


def _tags(text: str) -> str:
    return _IMAGE.sub(f"!{MARK}", _TAG.sub(f"<{MARK}", text))
