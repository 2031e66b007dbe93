"""Listings of AWS, page by page."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from adapters.aws.service import PAGES_MAX, PATIENT, QUICK, AwsService, longest
from adapters.ports import TransientError
from installation.wiring import FUNCTIONS, FunctionSpec


class Pager:
    """A client whose listing has this many pages of one item."""

    def __init__(self, pages: int | None) -> None:
        self.pages = pages
        self.meta = SimpleNamespace(service_model=SimpleNamespace(service_name="ec2"))

    def describe_things(self, *, Kind: str, NextToken: str = "0") -> dict[str, Any]:  # noqa: N803 - EC2's own names
        page = int(NextToken)
        if page == 2 and Kind == "throttled":
            raise ClientError({"Error": {"Code": "RequestLimitExceeded", "Message": "m"}}, "DescribeThings")
        answer: dict[str, Any] = {"Things": [f"{Kind}-{page}"]}
        is_last = self.pages is not None and page + 1 == self.pages
        return answer if is_last else {**answer, "NextToken": str(page + 1)}


def test_all_pages_are_read_with_the_same_parameters() -> None:
    """Otherwise, types, instances or prices beyond the first page would not exist for us."""
    assert list(AwsService(Pager(3)).items("DescribeThings", "Things", Kind="x")) == ["x-0", "x-1", "x-2"]


def test_an_endless_listing_is_given_up() -> None:
    """A token that never ends would keep the function busy until it is killed."""
    with pytest.raises(TransientError, match=str(PAGES_MAX)):
        list(AwsService(Pager(None)).items("DescribeThings", "Things", Kind="x"))


def test_a_partial_listing_is_not_used() -> None:
    """Otherwise, with half of the instances missing, their claims would look lost."""
    with pytest.raises(TransientError, match="ec2:DescribeThings"):
        list(AwsService(Pager(5)).items("DescribeThings", "Things", Kind="throttled"))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_a_call_times_out_within_the_function_s_own_time(function: FunctionSpec) -> None:
    """Otherwise, the function is killed while it waits, and no log names the call."""
    only_queues = function.reads_audit_log
    assert longest(QUICK if only_queues else PATIENT) < function.timeout - timedelta(seconds=5)
