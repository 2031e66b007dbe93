"""Codes for the state of a target begin with the object that they are about."""

from __future__ import annotations

from core.reasons.target import TargetReason


def test_each_code_begins_with_its_subject() -> None:
    assert all(code.startswith("Target") for code in TargetReason)
