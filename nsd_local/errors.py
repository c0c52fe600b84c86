"""The exceptions of nsd-local: one small tree, each saying what happened, why, and what to do next.

They become exit codes at the edge of the command line only (`exit_code`).
"""

from __future__ import annotations


class NsdError(Exception):
    """Anything nsd-local refuses or fails to do, told for a person.

    `what` happened, `why`, and what to `do` next; the latter two may be empty.
    """

    exit_code = 1

    def __init__(self, what: str, why: str = "", do: str = "") -> None:
        self.what, self.why, self.do = what, why, do
        super().__init__(" ".join(_sentence(part.strip()) for part in (what, why, do) if part))


def _sentence(text: str) -> str:
    """With a capital, unless it begins with a name or a flag, and a full stop."""
    first = text.split(maxsplit=1)[0] if text else ""
    if first.rstrip(",:").isalpha() and first.islower():
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?", ":")) else f"{text}."


class UsageError(NsdError):
    """A setting or an argument that makes no sense."""

    exit_code = 2


class ModelError(NsdError):
    """A file that is not a usable model: missing, cut off, not GGUF, unknown architecture, too large."""

    exit_code = 3


class PairError(NsdError):
    """A draft that cannot serve this target. Names the rule that failed and both values."""

    exit_code = 3


class DownloadError(NsdError):
    """A file that could not be fetched from any of its sources, or whose bytes are not the expected ones."""


class DecodeError(NsdError):
    """llama.cpp could not evaluate a batch, or a memory could not be rolled back."""


class SessionError(NsdError):
    """A saved session that could not be written, or does not belong to this program, model or setting."""


class Cancelled(NsdError):  # noqa: N818  not a failure
    """The consumer asked to stop. Raised inside long work (prefill, download), never shown as a failure."""

    exit_code = 130
