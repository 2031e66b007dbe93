"""Tables of a document as one HTML page, on a phone and for a screen reader."""

from __future__ import annotations

from cli.answers.written_tables import html_page, html_table


def test_numbers_are_aligned_and_an_empty_heading_is_no_heading() -> None:
    """A screen reader announced a heading without a name."""
    table = html_table(("", "dollars", "why"), [("spent", "1,204.50", "3 pods"), ("saved", "-", "")])
    assert table.startswith(
        '<table><tr><td></td><th scope="col" class="number">dollars</th><th scope="col">why</th></tr>'
    )
    assert '<tr><td>spent</td><td class="number">1,204.50</td><td>3 pods</td></tr>' in table


def test_a_table_without_rows_has_no_numbers() -> None:
    assert html_table(("x", "y"), []).startswith('<table><tr><th scope="col">x</th><th scope="col">y</th></tr>')


def test_a_page_fits_a_phone_and_says_what_its_notes_are() -> None:
    """Without a viewport a phone draws a page of 980 pixels, too small to read."""
    page = html_page("Report <one>", "a & b", [html_table(("x",), [])], ("Assumed", ["prices stay"]))
    assert '<meta name="viewport" content="width=device-width,initial-scale=1">' in page
    assert "<title>Report &lt;one&gt;</title>" in page
    assert "<main><h1>Report &lt;one&gt;</h1><p>a &amp; b</p>" in page
    assert "<h2>Assumed</h2><ul><li>prices stay</li></ul></main>" in page
