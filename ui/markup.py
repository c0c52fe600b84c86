"""Text of people and models, made safe to show as Markdown: HTML is shown, never rendered; no image is fetched.

The chat shows Markdown. HTML in it would be sanitised and rendered, a script would vanish, and an image would make the
browser fetch an address that a model chose. So a zero-width mark goes between `<` and a tag name and between `!` and
`[`: the text looks the same, and Markdown no longer reads it as a tag or an image. `unmark` (here, and in the page's
script for everything that is copied) takes the marks away again. Code blocks and formulas stay as they are: Markdown
never renders what is inside them.
"""

from __future__ import annotations

import html
import re

MARK = "\u2060"  # word joiner: no width, no line break
DELIMITERS = [
    {"left": "$$", "right": "$$", "display": True},
    {"left": "\\[", "right": "\\]", "display": True},
    {"left": "\\(", "right": "\\)", "display": False},
]

# A fence, perhaps behind the marks of quotes and list items.
_FENCE = re.compile(r"^((?: *(?:>|(?:[-*+]|\d{1,9}[.)])(?= )))* *)(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)
_MATH = re.compile(r"\$\$.+?\$\$|\\\[.+?\\\]|\\\(.+?\\\)|(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
# `$x$` as pandoc reads it: no space inside the dollars, no digit after them, on one line.
_DOLLARS = re.compile(r"(?<![\\$\w])\$(?=[^\s$])([^$\n`]{1,400}?)(?<=[^\s\\])\$(?![\d$])")
_TAG = re.compile(r"<(?=[a-zA-Z/!?])")
_IMAGE = re.compile(r"!(?=\[)")
_MERMAID = re.compile(r"^([ \t>*+\-\d.)]*(?:`{3,}|~{3,})[ \t]*)mermaid\b", re.IGNORECASE | re.MULTILINE)


def markdown(text: str) -> str:
    """`text` for a Markdown view that must not render HTML, fetch images or draw diagrams."""
    out: list[str] = []
    for is_code, part in _blocks(re.sub(r"\r\n?", "\n", text)):
        out.append(part if is_code else _prose(part))
    return "".join(out)


def toast(message: object) -> str:
    """A text for Gradio's toasts, which render HTML."""
    return html.escape(str(message))


def unmark(text: str) -> str:
    """What `markdown` was given, as far as marks go."""
    return text.replace(f"<{MARK}", "<").replace(f"!{MARK}[", "![")


def fenced(text: str, language: str = "") -> str:
    """`text` as a code block whose fence is longer than any run of backticks inside."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _blocks(text: str) -> list[tuple[bool, str]]:
    """Splits into (is a fenced code block, text); a block that is not closed yet reaches to the end.

    Whether an indented fence stands in a list item, and where that item ends, is not decided here. The block is known
    as long as every reading says the same; from the first line on where they differ, nothing is taken for code.
    """
    parts: list[tuple[bool, str]] = []
    start = position = 0
    known = True
    while known and (opening := _FENCE.search(text, position)):
        lead, fence, info = opening.groups()
        position = opening.end()
        if fence[0] == "`" and "`" in info:
            continue
        position, known = _end(text, position, lead, fence)
        block = _MERMAID.sub(r"\1text", opening.group()) + text[opening.end() : position]
        parts.append((False, text[start : opening.start()]))
        parts.append((True, _tags(block) if "    " in lead else block))  # indented by so much it may be no fence
        start = position
    parts.append((False, text[start:]))
    return parts


def _end(text: str, start: int, lead: str, fence: str) -> tuple[int, bool]:
    """Where the block ends whose fence stands behind `lead`, and whether every reading of its lists ends it there."""
    within = re.sub("[^>]", " ", lead)  # each of its lines begins so
    room = 3 if lead.strip() else max(0, 3 - len(lead))  # spaces before the closing fence
    closing = re.compile(rf"( *){re.escape(fence)}([`~]*)[ \t]*")  # Gradio's parser takes either mark behind the fence
    end = start
    for line in text[start:].split("\n")[1:]:
        if not line.startswith(within) and line.rstrip() != within.rstrip():
            return end, False
        end += 1 + len(line)
        if closes := closing.fullmatch(line[len(within) :]):
            fits, same = len(closes.group(1)) <= room, set(closes.group(2)) <= {fence[0]} and "\t" not in line
            if fits or lead:
                return end, fits and same
    return end, True


def _prose(text: str) -> str:
    """Marks what is neither a formula nor inline code."""
    text = _MERMAID.sub(r"\1text", text)
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
