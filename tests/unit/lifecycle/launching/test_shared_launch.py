"""Claims of one shape share launches, and each knows its instance."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from core import labels
from core.lifecycle.launching.shared_launch import (
    in_launches,
    is_unnamed,
    launch_name,
    name_tags,
    share_launches,
)
from core.lifecycle.records import ClaimRecord
from core.model.catalogue import Catalogue, Offering
from core.model.node_claim import ObjectRef
from core.model.plan import PlannedClaim
from lambdas.controllers.launching.claim_record import order_of
from tests.builders import NOW


def a_record(name: str, *, kind: int = 0, **more: Any) -> ClaimRecord:
    plan = PlannedClaim(
        name=name,
        node_pool=f"pool-{kind % 2}",
        node_class=ObjectRef(labels.AWS_GROUP, "EC2NodeClass", "default"),
        resources={"cpu": 100 + len(name)},
    )
    offerings = (Offering("m5.large" if kind < 2 else "m5.xlarge", "us-east-1a", "spot", 1),)
    return ClaimRecord(
        name=name, plan=plan, token=f"own-{name}", requested_at=NOW, phase_since=NOW, offerings=offerings, **more
    )


def token_of(name: str) -> str:
    return f"of-{name}"


@given(kinds=st.lists(st.integers(0, 3), max_size=30), at_most=st.integers(1, 5))
def test_every_claim_keeps_its_place_and_has_a_share_of_its_own(kinds: list[int], at_most: int) -> None:
    """Two claims with one share would stand for one instance."""
    given_ = [a_record(f"c{n}", kind=kind) for n, kind in enumerate(kinds)]
    shared = share_launches(given_, token_of, at_most=at_most)
    assert [record.name for record in shared] == [record.name for record in given_]
    for launch in in_launches(shared):
        assert [record.share for record in launch] == list(range(len(launch)))
        assert {record.shares for record in launch} == {len(launch)}
        assert len(launch) <= at_most
        asked = [order_of(record, {}, Catalogue(), cluster="c") for record in launch]
        assert all(msgspec.structs.replace(order, requests=asked[0].requests) == asked[0] for order in asked)


def test_a_claim_that_ec2_may_have_been_asked_for_keeps_its_token() -> None:
    """With another token it would be launched twice."""
    tried = a_record("c0", attempts=1)
    assert share_launches([tried, a_record("c1"), a_record("c2")], token_of)[0] == tried


def test_instances_of_a_launch_have_its_name_until_they_are_named_after_a_claim() -> None:
    first, _ = share_launches([a_record("c0"), a_record("c1")], token_of)
    tags = order_of(first, {}, Catalogue(), cluster="c").tags
    assert is_unnamed(tags)
    assert tags[labels.CLAIM] == launch_name(first) != first.name
    assert not is_unnamed(tags | name_tags("c0"))
    assert not is_unnamed(order_of(a_record("c0"), {}, Catalogue(), cluster="c").tags)
