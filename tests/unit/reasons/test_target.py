"""Codes of what became of a target say which object they are about."""

from __future__ import annotations

from core.reasons.target import TargetReason


def test_each_code_begins_with_what_it_is_about() -> None:
    assert all(code.startswith("Target") for code in TargetReason)
