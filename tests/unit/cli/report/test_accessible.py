"""Pages can be read and used without a mouse, without colours, and by those who hear them."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from cli.answers.written_tables import html_page, html_table
from cli.report import render
from tests import page
from tests.accessible_page import SHAPE_CONTRAST, TEXT_CONTRAST, barriers, contrast, palettes
from tests.unit.cli.report.test_report import content

BACKGROUNDS = ("ground", "card")
TEXTS = ("ink", "quiet", "accent", "bad", "step", "interruption", "capacity", "fault")
"""Also the words over a chart, which have the colours of their bands."""
SHAPES = ("on-demand", "spot", "reserved", "kept")
STYLE = (files("cli") / "assets" / "report.css").read_text()


def test_the_page_of_a_simulation_has_no_barrier() -> None:
    assert barriers(render(content())) == []


def test_nor_has_it_one_once_its_script_has_run(tmp_path: Path) -> None:
    """The timeline, the legends and the panel of a node are made by the script."""
    program = page.browser()
    if program is None:
        pytest.skip("no Chromium on this machine")
    target = tmp_path / "report.html"
    target.write_text(render(content()), encoding="utf-8")
    told = page.drawn(target, program, "node=n2")
    assert "NodeClaim general-b1-1" in told
    assert barriers(told) == []


def test_pages_of_tables_have_no_barrier() -> None:
    tables = [html_table(("", "dollars"), [("spent", "1.20")]), html_table(("where",), [("nowhere",)])]
    assert barriers(html_page("Report", "one week", tables, ("Assumed", ["prices stay"]))) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("background", BACKGROUNDS)
def test_text_and_lines_stand_out(scheme: str, background: str) -> None:
    colours = palettes(STYLE)[scheme]
    faint = {name: contrast(colours[name], colours[background]) for name in (*TEXTS, *SHAPES)}
    assert {name: ratio for name, ratio in faint.items() if ratio < SHAPE_CONTRAST} == {}
    assert {name: ratio for name, ratio in faint.items() if name in TEXTS and ratio < TEXT_CONTRAST} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_on_the_bars_of_nodes_stand_out(scheme: str) -> None:
    colours = palettes(STYLE)[scheme]
    for bar in ("on-demand", "spot", "reserved"):
        assert contrast(colours["on-bar"], colours[bar]) >= TEXT_CONTRAST


def test_contrast_is_what_the_standard_defines() -> None:
    assert contrast("#000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.01)


GOOD = '<html lang="en"><head><title>t</title></head><body><main><h1>h</h1>{}</main></body></html>'


@pytest.mark.parametrize(
    ("part", "rule"),
    [
        ("<h3>x</h3>", "1.3.1"),
        ("<h2></h2>", "2.4.6"),
        ("<h1>again</h1>", "1.3.1"),
        ('<i id="a"></i><i id="a"></i>', "4.1.1"),
        ("<button></button>", "4.1.2"),
        ("<input>", "1.3.1"),
        ('<label for="none">x</label>', "1.3.1"),
        ('<img src="a">', "1.1.1"),
        ('<div role="img"></div>', "1.1.1"),
        ("<table><tr><td>x</td></tr></table>", "1.3.1"),
        ("<table><tr><th>x</th></tr></table>", "1.3.1"),
        ('<table><tr><th scope="col"></th></tr></table>', "1.3.1"),
        ("<li>x</li>", "1.3.1"),
        ('<p tabindex="3">x</p>', "2.4.3"),
        ('<div class="scroll">x</div>', "2.1.1"),
        ("</main><p>x</p>", "1.3.1"),
    ],
)
def test_each_barrier_is_found(part: str, rule: str) -> None:
    """A rule that finds nothing holds for every page."""
    assert [found.partition(" ")[0] for found in barriers(GOOD.format(part))] == [rule]


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [(' lang="en"', "", "3.1.1"), ("<title>t</title>", "", "2.4.2"), ("main>", "div>", "1.3.1")],
)
def test_a_document_without_language_title_or_landmark_is_found(old: str, new: str, rule: str) -> None:
    told: list[Any] = barriers(GOOD.format("").replace(old, new))
    assert {found.partition(" ")[0] for found in told} == {rule}
