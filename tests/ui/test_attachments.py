"""Text files in a message: in and out again, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from nsd_local.ui.attachments import MOST_BYTES, Attachment, attach, detach, read

from nsd_local.errors import UsageError


@pytest.mark.parametrize(
    "text", ["", "one line", "a\n\nb\n```\ncode\n```", "[file: no]\n```\nx\n```", "ünïcödé 中文 🙂"]
)
def test_a_message_with_files_can_be_taken_apart_again(text: str) -> None:
    files = [Attachment("a.txt", text), Attachment("b.py", "x = 1")]
    assert detach(attach("What is this?", files)) == ("What is this?", files)


def test_a_message_without_files_is_itself() -> None:
    assert detach("hello\n\n```\ncode\n```") == ("hello\n\n```\ncode\n```", [])


def test_what_is_not_text_is_refused(tmp_path: Path) -> None:
    for name, data in (("a.png", b"\x89PNG\0\0"), ("b.txt", b"\xff\xfe\xfa")):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(UsageError, match="not a text file"):
            read(path)


def test_a_large_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    path.write_bytes(b"x" * (MOST_BYTES + 1))
    with pytest.raises(UsageError, match="too large"):
        read(path)


def test_marks_of_other_systems_are_read_as_lines(tmp_path: Path) -> None:
    path = tmp_path / "dos.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert read(path) == Attachment("dos.txt", "one\ntwo")
