"""Markdown that must not render HTML, fetch images or draw diagrams, and yet look the same."""

from __future__ import annotations

import pytest
from nsd_local.ui.markup import MARK, fenced, markdown, unmark


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


def test_a_diagram_is_shown_as_text() -> None:
    assert markdown("```mermaid\ngraph TD\n```") == "```text\ngraph TD\n```"


def test_formulas_are_kept_and_single_dollars_become_formulas() -> None:
    assert markdown("$$a<b$$") == "$$a<b$$"
    assert markdown("so \\(a<b\\) holds") == "so \\(a<b\\) holds"
    assert markdown("so $a<b$ holds") == "so \\(a<b\\) holds"


@pytest.mark.parametrize("text", ["it costs $5 or $6", "$HOME and $PATH/bin", "`$x$` in code", "US$ 3 and $ 4"])
def test_dollars_that_are_no_formula_stay(text: str) -> None:
    assert markdown(text) == text


def test_a_fence_is_longer_than_any_run_of_backticks_inside() -> None:
    assert fenced("a\n````\nb").startswith("`````\n")
