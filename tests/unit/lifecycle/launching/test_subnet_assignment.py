"""The claims of a plan are distributed over the subnets of a zone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from core import labels
from core.lifecycle.launching.subnet_assignment import full_zones, with_subnets
from core.lifecycle.records import ClaimRecord
from core.model.catalogue import Offering
from core.model.node_pool import NodeClass
from core.model.snapshot import Snapshot
from tests.builders import NOW
from tests.unit.lifecycle.launching.test_shared_launch import a_record


def a_claim(number: int, zones: Sequence[str], node_class: str = "default") -> ClaimRecord:
    record = a_record(f"c{number}")
    offerings = tuple(Offering("m5.large", zone, labels.SPOT, 1) for zone in zones)
    reference = msgspec.structs.replace(record.plan.node_class, name=node_class)
    plan = msgspec.structs.replace(record.plan, node_class=reference)
    return msgspec.structs.replace(record, plan=plan, offerings=offerings)


def a_snapshot(free: dict[str, int], *classes: NodeClass) -> Snapshot:
    """Subnets `a1` and `a2` are in zone `a`, and so on."""
    return Snapshot(now=NOW, node_classes=classes or (a_class(*free),), subnet_addresses=free)


def a_class(*subnets: str, name: str = "default", per_node: int = 1) -> NodeClass:
    return NodeClass(name=name, subnets=tuple((one, one[0]) for one in subnets), addresses_per_node=per_node)


def subnets_of(records: Sequence[ClaimRecord], snapshot: Snapshot) -> list[dict[str, str]]:
    return [record.subnets for record in with_subnets(records, snapshot)]


def test_each_claim_gets_the_subnet_with_most_addresses_left() -> None:
    """Its pods take further addresses of the same subnet."""
    claims = [a_claim(n, "a") for n in range(4)]
    found = subnets_of(claims, a_snapshot({"a1": 2, "a2": 4}))
    assert found == [{"a": "a2"}, {"a": "a2"}, {"a": "a1"}, {"a": "a2"}]


@given(
    free=st.dictionaries(st.sampled_from(("a1", "a2", "a3")), st.integers(0, 40), min_size=2),
    per_node=st.sampled_from((1, 17)),
)
def test_no_subnet_is_asked_for_more_than_it_has_while_another_has_room(free: dict[str, int], per_node: int) -> None:
    """EC2 would refuse the launch, and the subnet would be avoided for minutes."""
    nodes = sum(count // per_node for count in free.values())
    snapshot = a_snapshot(free, a_class(*free, per_node=per_node))
    asked = Counter(one["a"] for one in subnets_of([a_claim(n, "a") for n in range(nodes)], snapshot))
    assert sum(asked.values()) == nodes
    assert all(count * per_node <= free[subnet] for subnet, count in asked.items())


def test_a_claim_takes_addresses_in_each_zone_where_it_may_be_launched() -> None:
    """EC2 chooses the zone."""
    claims = [a_claim(n, zones) for n, zones in enumerate(("ab", "a", "b"))]
    found = subnets_of(claims, a_snapshot({"a1": 2, "a2": 2, "b1": 3, "b2": 3}))
    assert found == [{"a": "a1", "b": "b1"}, {"a": "a2"}, {"b": "b2"}]


def test_classes_share_the_addresses_of_their_subnets() -> None:
    """A class with one subnet in the zone has no choice, but takes addresses of it."""
    snapshot = a_snapshot({"a1": 5, "a2": 4}, a_class("a1", "a2"), a_class("a1", name="other"))
    claims = [a_claim(0, "a", "other"), a_claim(1, "a", "other"), a_claim(2, "a")]
    assert subnets_of(claims, snapshot) == [{}, {}, {"a": "a2"}]


def test_a_zone_with_a_subnet_that_has_plenty_is_left_out() -> None:
    """Launches go to the first subnet of the class there, which had most at the last reading."""
    snapshot = a_snapshot({"a1": 5, "b1": 2, "b2": 1}, a_class("a1", "a2", "b1", "b2"))
    assert subnets_of([a_claim(0, "ab"), a_claim(1, "a")], snapshot) == [{"b": "b1"}, {}]


def test_the_order_of_subnets_has_no_meaning() -> None:
    """The same snapshot gives the same plan, and the class lists its subnets by what they had once."""
    claims = [a_claim(n, "a") for n in range(3)]
    free = {"a1": 2, "a2": 2}
    one, other = (a_snapshot(free, a_class(*order)) for order in (("a1", "a2"), ("a2", "a1")))
    assert subnets_of(claims, one) == subnets_of(claims, other)


def test_nothing_is_assigned_without_a_class_or_where_all_subnets_have_plenty() -> None:
    claims = [a_claim(0, "a", "gone")]
    assert with_subnets(claims, a_snapshot({"a1": 2, "a2": 2})) == claims
    assert with_subnets([a_claim(0, "a")], a_snapshot({}, a_class("a1", "a2"))) == [a_claim(0, "a")]


def test_a_zone_is_full_if_no_subnet_has_the_addresses_of_a_node() -> None:
    """The roomiest subnet counts; one that is not in the reading has plenty."""
    found = a_class("a1", "a2", "b1", "c1", "c2", per_node=4)
    assert full_zones(found, {"a1": 3, "a2": 2, "b1": 4, "c1": 0}) == {"a"}
    assert full_zones(found, {"a1": 3, "a2": 4, "b1": 3}) == {"b"}
