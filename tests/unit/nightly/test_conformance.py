"""What fails on purpose is decided by name, and a decision lasts as long as the failure."""

from __future__ import annotations

import pytest

from tests.conformance import DECIDED, verdict


@pytest.mark.parametrize(
    ("more", "fewer", "lines"),
    [
        ((), (), []),
        (("b", "a"), (), ["a fails", "b fails"]),
        ((), ("combined-taint-and-spread",), ["combined-taint-and-spread passes: its entry in DECIDED is out of date"]),
    ],
    ids=["as decided", "others fail", "a decided one passes"],
)
def test_what_is_wrong_is_named(more: tuple[str, ...], fewer: tuple[str, ...], lines: list[str]) -> None:
    assert verdict((set(DECIDED) | set(more)) - set(fewer)) == lines
