"""A finding without a reason, and a reason without a finding, are both reported."""

from __future__ import annotations

from tests.template_checks.acknowledged import ACKNOWLEDGED, Acknowledgement, Finding, idle, unexplained

ROWS = (Acknowledgement(r"AwsSolutions-L1", r"stack/.*", "a reason"), Acknowledgement("S1", "bucket", "another"))


def test_a_finding_is_explained_only_by_a_row_that_matches_all_of_it() -> None:
    explained, elsewhere = Finding("AwsSolutions-L1", "stack/f"), Finding("AwsSolutions-L1", "other/f")
    longer = Finding("AwsSolutions-L12", "stack/f")
    assert unexplained([explained, elsewhere, longer], ROWS) == [elsewhere, longer]


def test_a_row_that_nothing_needs_is_told() -> None:
    assert idle([Finding("AwsSolutions-L1", "stack/f")], ROWS) == [ROWS[1]]


def test_every_row_has_a_reason() -> None:
    assert all(row.reason.endswith(".") for row in ACKNOWLEDGED)
