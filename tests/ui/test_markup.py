"""Markdown that must not render HTML, fetch images or draw diagrams, and yet look the same."""

from __future__ import annotations

import pytest
from nsd_local.ui.markup import MARK, fenced, markdown, toast, unmark

TAGS = ("<b>", "<script>", "![x](http://example.com/x.png)")


@pytest.mark.parametrize(
    "text",
    [
        "<b>x</b>",
        "</div>",
        "<!-- comment -->",
        "<?php ?>",
        "![a](http://example.com/a.png)",
        "![a][ref]\n\n[ref]: http://example.com/a.png",
        "`<i>` and <i>",
        "a < b and 1<2",
    ],
)
def test_marks_can_be_taken_away_again(text: str) -> None:
    assert unmark(markdown(text)) == text


@pytest.mark.parametrize("text", ["<script>", "</p>", "<!doctype html>", "<?xml", "![x](y)"])
def test_what_markdown_would_render_is_marked(text: str) -> None:
    shown = markdown(text)
    assert MARK in shown
    assert text not in shown


def test_code_blocks_stay_as_they_are() -> None:
    for block in ("```html\n<b>x</b>\n```", "~~~\n![a](b)\n~~~", "````\n```\n<b>\n```\n````"):
        assert markdown(f"before\n\n{block}\n\nafter") == f"before\n\n{block}\n\nafter"


def test_an_open_code_block_reaches_to_the_end_while_it_streams() -> None:
    assert markdown("```html\n<b>not closed yet") == "```html\n<b>not closed yet"
    assert markdown("```html\n<b>\n```\n<b>").endswith(f"<{MARK}b>")


BLOCKS = [
    "- ```\n  x = '<i>'\n  ```",
    "1. ~~~html\n   <i>\n   ~~~",
    "> ```\n> <i>\n>\n> ```",
    "> - ```\n>   <i>\n>   ```",
    "1. First:\n\n   ```html\n   <i>\n\n     <p>\n   ```",
    "* a\n  * ````\n    ```\n    <i>\n    ```\n    ````",
]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_in_a_list_or_a_quote_is_code_to_its_own_end(block: str) -> None:
    shown = markdown(f"{block}\n{' '.join(TAGS)}")
    assert unmark(shown) == f"{block}\n{' '.join(TAGS)}"
    assert shown.startswith(block) or "    " in block  # so deep it may be no fence: what is in it is marked, too
    for tag in TAGS:
        assert tag not in shown


@pytest.mark.parametrize(
    "block",
    [
        "- ```\n  x",  # the item ends, and its block with it
        "> ```\n> x",
        "  ```\n  x",  # one of a list item would end, one of its own would not
        "- a\n\n  ```\n  x",
        "   ```\n   x\n     ```",
        "```\nx\n```~",
        "-\t```\n\tx\n\t```",
        "1. a\n    ```\n    x\n   ```",
    ],
)
def test_where_a_block_may_have_ended_nothing_is_taken_for_code(block: str) -> None:
    for tag in TAGS:
        for rest in (f"{tag}\n", f"text\n  {tag}\n", f"\n{tag}\n```\n```\n{tag}"):
            assert tag not in markdown(f"{block}\n{rest}")


def test_lines_end_as_the_browser_reads_them() -> None:
    assert markdown("```\r\nx\r```\r<b>") == f"```\nx\n```\n<{MARK}b>"


def test_a_diagram_is_shown_as_text() -> None:
    assert markdown("```mermaid\ngraph TD\n```") == "```text\ngraph TD\n```"
    assert markdown("- ```mermaid\n  graph TD\n  ```") == "- ```text\n  graph TD\n  ```"
    assert markdown("-\t```mermaid\n") == "-\t```text\n"


def test_a_toast_shows_tags_as_text() -> None:
    assert toast(ValueError("<b>a & b</b>")) == "&lt;b&gt;a &amp; b&lt;/b&gt;"


def test_formulas_are_kept_and_single_dollars_become_formulas() -> None:
    assert markdown("$$a<b$$") == "$$a<b$$"
    assert markdown("so \\(a<b\\) holds") == "so \\(a<b\\) holds"
    assert markdown("so $a<b$ holds") == "so \\(a<b\\) holds"


@pytest.mark.parametrize("text", ["it costs $5 or $6", "$HOME and $PATH/bin", "`$x$` in code", "US$ 3 and $ 4"])
def test_dollars_that_are_no_formula_stay(text: str) -> None:
    assert markdown(text) == text


def test_a_fence_is_longer_than_any_run_of_backticks_inside() -> None:
    assert fenced("a\n````\nb").startswith("`````\n")
