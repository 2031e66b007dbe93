"""Texts of whole results belong to cases: one that no test compares would be read in vain."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.expected import MODULES, Expected

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("module", MODULES)
def test_each_text_has_a_case_and_each_case_a_text(module: str) -> None:
    expected: Expected = import_module(module).EXPECTED
    assert list(expected.texts()) == list(expected.cases)


def test_every_file_of_texts_is_written_by_the_command() -> None:
    """Otherwise, `python -m tests.expected` leaves texts behind that no longer hold."""
    files = {import_module(module).EXPECTED.file for module in MODULES}
    assert files == set(TESTS.rglob("expected/*.txt"))


def test_a_file_is_read_as_it_is_written(tmp_path: Path) -> None:
    expected = Expected(tmp_path / "a" / "texts.txt", {"one": lambda: "first\n\n# line", "two, too": lambda: "second"})
    expected.write()
    assert expected.texts() == {"one": "first\n\n# line", "two, too": "second"}
    with pytest.raises(KeyError):
        expected.text("three")
