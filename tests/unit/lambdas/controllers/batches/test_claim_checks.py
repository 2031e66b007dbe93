"""One check of a claim: what its message reports is acted on first, then the claim takes its next steps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from adapters.messages import WorkItem
from adapters.run_report import RunReport
from lambdas.controllers.batches.claim_group import ClaimChecks
from tests.builders import NOW

REPORT, READER = RunReport(), object()
NOTICE: Any = object()
SOON = timedelta(seconds=3)


class Asked:
    """Notes what a part is asked in one list of all parts: their order counts."""

    def __init__(self, calls: list[tuple[Any, ...]], name: str) -> None:
        self.calls = calls
        self.name = name

    def act(self, notice: Any, report: RunReport) -> None:
        assert report is REPORT
        self.calls.append(("notice", notice))

    def check(self, name: str, report: RunReport) -> timedelta:
        assert report is REPORT
        self.calls.append((self.name, name))
        return SOON

    def advance(self, name: str, reader: Any, report: RunReport, **options: Any) -> timedelta:
        assert (reader, report) == (READER, REPORT)
        self.calls.append(("advance", name, options))
        return SOON


def checks() -> tuple[ClaimChecks, list[tuple[Any, ...]]]:
    calls: list[tuple[Any, ...]] = []
    parts: Any = {name: Asked(calls, name) for name in ("claim_work", "deleted", "hand_made", "notices")}
    return ClaimChecks(**parts), calls


@pytest.mark.parametrize(
    ("item", "is_checked"),
    [
        (WorkItem(claim="c"), False),
        (WorkItem(claim="c", is_made=True), True),
        (WorkItem(claim="c", is_deleted=True), True),
        (WorkItem(claim="c", notice=NOTICE), False),
        (WorkItem(claim="c", notice=NOTICE, is_made=True), True),
    ],
)
def test_only_a_node_claim_that_was_made_or_deleted_may_be_a_hand_made_one(item: WorkItem, is_checked: bool) -> None:
    """And what EC2 says of the instance is acted on before it."""
    checked, calls = checks()
    assert checked.take_on(item, "c", REPORT) == (SOON if is_checked else None)
    notices = [("notice", NOTICE)] if item.notice is NOTICE else []
    assert calls == [*notices, *([("hand_made", "c")] if is_checked else [])]


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_deletion_is_handled_before_the_next_step(is_deleted: bool) -> None:
    checked, calls = checks()
    assert checked.take("c", READER, REPORT, WorkItem(claim="c", is_deleted=is_deleted)) == SOON  # type: ignore[arg-type]
    step = ("advance", "c", {"until": None, "is_first": True})
    assert calls == [*([("deleted", "c")] if is_deleted else []), step]


@pytest.mark.parametrize(("due", "is_first"), [(None, True), (NOW, False)])
def test_a_message_that_no_check_asked_for_begins_a_chain(due: Any, is_first: bool) -> None:
    """The first check of a chain gives the instance its name."""
    checked, calls = checks()
    checked.take("c", READER, REPORT, WorkItem(claim="c", until=NOW, due=due))  # type: ignore[arg-type]
    assert calls == [("advance", "c", {"until": NOW, "is_first": is_first})]
