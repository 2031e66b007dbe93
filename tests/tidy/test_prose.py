"""Pages for users keep to short sentences, few clauses and plain words; `make prose` shows the figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import prose


@pytest.mark.parametrize("page", prose.pages(), ids=lambda page: str(page.relative_to(prose.ROOT)))
def test_a_page_keeps_within_the_bounds(page: Path) -> None:
    """A reader on call reads each sentence once."""
    assert prose.complaints(prose.shape(page.read_text(encoding="utf-8"))) == []


def test_code_outputs_and_figures_are_not_read() -> None:
    page = (
        "# A title\n\nOne short sentence stands here. A second one ends\non the next line.\n\n"
        "```text\nwhat is under way\n```\n\n    what is under way\n\n"
        "<!-- Figures: x -->\nwhat is under way\n<!-- End of the figures. -->\n"
    )
    assert prose.sentences(page) == [
        "A title",
        "One short sentence stands here.",
        "A second one ends on the next line.",
    ]


def test_items_and_cells_are_sentences_of_their_own_and_code_is_one_word() -> None:
    page = "1. Run `make two words`\n   and [wait](there.md).\n- Then go.\n\n| a cell | another one |\n| --- | --- |\n"
    assert prose.sentences(page) == ["Run `x` and wait.", "Then go.", "a cell", "another one"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (" ".join(["word"] * 41) + ".", "longest 41"),
        ("What it reads is on this page.", "noun_clauses 1"),
        ("Commands under way are listed here.", "'under way' (in progress)"),
        ("This is the price of the types of the pool.", "of_chains"),
        ("It is what one has that others lack.", "clauses 2"),
    ],
)
def test_each_habit_is_noticed(text: str, complaint: str) -> None:
    assert any(complaint in line for line in prose.complaints(prose.shape(text)))


def test_plain_sentences_pass() -> None:
    assert (
        prose.complaints(
            prose.shape(
                "Run the command. It prints the nodes that can be removed. What does it need? One file is enough."
            )
        )
        == []
    )
