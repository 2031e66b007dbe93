"""A table on a narrow terminal: a line for each column of a row."""

from __future__ import annotations

from cli.terminal.records import records

HEADINGS = ("NODE", "TYPE", "$/H")


def shown(*rows: tuple[str, ...], width: int = 24) -> list[str]:
    return list(records(HEADINGS, rows, width))


def test_each_row_is_its_name_and_its_columns_below() -> None:
    assert shown(("n1", "m5.large", "0.1"), ("n2", "", "0.2"), ("n3", " ", "")) == [
        "n1",
        "  TYPE  m5.large",
        "  $/H   0.1",
        "n2",
        "  $/H   0.2",
        "n3",
    ]


def test_a_cell_of_several_words_is_wrapped_beside_its_heading() -> None:
    assert shown(("n1", "one two three four five", ""), width=20) == [
        "n1",
        "  TYPE  one two",
        "        three four",
        "        five",
    ]


def test_a_word_that_needs_more_room_stands_below_its_heading() -> None:
    """Beside `TYPE` there are 12 columns of 20."""
    assert shown(("n1", "x" * 12, ""), width=20) == ["n1", f"  TYPE  {'x' * 12}"]
    assert shown(("n1", f"ab {'x' * 14}", ""), width=20) == ["n1", "  TYPE", "    ab", f"    {'x' * 14}"]
    assert shown(("n1", f"a {'x' * 14}", ""), width=20) == ["n1", "  TYPE", f"    a {'x' * 14}"]


def test_no_word_is_broken() -> None:
    name = "ip-10-0-1-7.eu-central-1.compute.internal"
    assert shown((name, name, ""), width=20) == [name, "  TYPE", f"    {name}"]


def test_a_table_of_one_column_is_its_names() -> None:
    assert list(records(("NODE",), [("n1",), ("n2",)], 20)) == ["n1", "n2"]
