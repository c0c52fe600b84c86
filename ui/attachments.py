"""Text files that go along with a message: read, put into the message's text, and found there again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from nsd_local.errors import UsageError

from .markup import fenced

MOST_BYTES = 512_000  # far above what any context holds; refuses a video before it is read into a prompt
_ATTACHED = re.compile(r"\n\n\[file: ([^\n\]]+)\]\n(`{3,})\n(.*?)\n\2(?=\n\n\[file: |\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Attachment:
    name: str
    text: str

    @property
    def title(self) -> str:
        lines = self.text.count("\n") + 1
        return f"{self.name} · {lines} line{'s' if lines != 1 else ''}"


def read(path: Path) -> Attachment:
    """A text file. Raises UsageError for what is not text or is too large."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise UsageError(
            f"{path.name} is too large to attach",
            f"it has {size:,} bytes, the limit is {MOST_BYTES:,}",
            "Attach a part of it",
        )
    data = path.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = ""
    if b"\0" in data or (data and not text):
        raise UsageError(f"{path.name} is not a text file", "only UTF-8 text can be attached")
    return Attachment(path.name.replace("]", ")").replace("\n", " "), text.replace("\r\n", "\n").rstrip("\n"))


def attach(message: str, attachments: list[Attachment]) -> str:
    """The text that the model reads: the message, then each file under its name."""
    return message.strip() + "".join(f"\n\n[file: {a.name}]\n{fenced(a.text)}" for a in attachments)


def detach(content: str) -> tuple[str, list[Attachment]]:
    """What `attach` was given."""
    found = list(_ATTACHED.finditer(content))
    if not found:
        return content, []
    return content[: found[0].start()], [Attachment(match.group(1), match.group(3)) for match in found]
