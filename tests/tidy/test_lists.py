"""Numbered steps of a page keep their numbers on GitHub and on the site, whose Markdown wants four spaces."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.prose import pages

_STEP = re.compile(r"^\d+\. ")


def broken_steps(page: str) -> list[str]:
    """Return lines at which the site would end a list of steps and begin at 1 again."""
    text = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    found, steps, before = [], False, ""
    for line in text.splitlines():
        if steps and (re.match(r" {1,3}\S", line) or (_STEP.match(line) and re.match(r" {4}\S", before))):
            found.append(line)
        steps = bool(_STEP.match(line)) or (steps and (line.startswith(" ") or not line.strip()))
        before = line
    return found


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_steps_are_not_numbered_again(page: Path) -> None:
    """A reader who is sent to step 5 finds none if each list has two steps."""
    assert broken_steps(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("page", "broken"),
    [
        ("1. One\n\n        code\n\n    Text.\n\n2. Two\n", []),
        ("1. One\n   and more\n2. Two\n", ["   and more"]),
        ("1. One\n\n    Text.\n2. Two\n", ["2. Two"]),
        ("```\n1. One\n   two\n```\n", []),
    ],
)
def test_what_the_site_cannot_continue_is_noticed(page: str, broken: list[str]) -> None:
    assert broken_steps(page) == broken
