"""Claims that are alike share launches, and each knows its instance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import labels
from core.catalogue.capacity import EFA
from core.lifecycle.launching import (
    HALF_RUNS_FOR,
    StartsInVain,
    by_group,
    full_zones,
    in_launches,
    is_unanswered,
    is_unnamed,
    launch_name,
    least_instances,
    may_start_for_nobody,
    name_tags,
    ready_for_nobody,
    share_launches,
    starts_for_nobody,
    with_subnets,
)
from core.lifecycle.records import ClaimPhase, ClaimRecord, Deletion, Moments
from core.model.catalogue import Catalogue, Offering
from core.model.node_pool import NodeClass
from core.model.plan import Binding, ObjectRef, Plan, PlannedClaim, PlannedGroup, Unschedulable
from core.model.pod import GroupSource, Owner, Pod
from core.model.snapshot import ProvisioningRequest, Snapshot
from core.model.values.requirements import Requirement
from core.provisioning_requests import ATOMIC_SCALE_UP
from core.reasons.pods import PodReason
from lambdas.controllers.launching import order_of
from tests.builders import NOW, a_pod


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


TYPES = ("m5.large", "c5.large", "m5.xlarge", "c5.xlarge", "r5.large", "r5.xlarge", "m5.2xlarge", "c5.2xlarge")


def with_types(
    name: str, types: Sequence[str], *requirements: Requirement, capacity_type: str = labels.SPOT
) -> ClaimRecord:
    """A claim that accepts these types, cheapest first."""
    record = a_record(name)
    offerings = tuple(Offering(kind, "us-east-1a", capacity_type, TYPES.index(kind)) for kind in types)
    plan = msgspec.structs.replace(record.plan, requirements=requirements)
    return msgspec.structs.replace(record, offerings=offerings, plan=plan)


def launches_of(*records: ClaimRecord) -> list[list[str]]:
    return [[record.name for record in launch] for launch in in_launches(share_launches(records, token_of))]


def test_claims_that_differ_in_some_offerings_are_launched_with_those_that_all_accept() -> None:
    """Pods of one claim fit a type that those of another do not; each its own request would take EC2 minutes for 1,000."""
    without = {"c0": {"c5.large"}, "c1": {"r5.large"}, "c2": set[str]()}
    records = [with_types(name, [kind for kind in TYPES if kind not in left]) for name, left in without.items()]
    shared = share_launches(records, token_of)
    assert {record.token for record in shared} == {"of-c0"}
    (common,) = {tuple(offering.instance_type for offering in record.offerings) for record in shared}
    assert common == tuple(kind for kind in TYPES if kind not in {"c5.large", "r5.large"})


def test_a_launch_keeps_three_quarters_of_each_claims_offerings() -> None:
    """EC2 has less often capacity for few types."""
    assert launches_of(with_types("c0", TYPES), with_types("c1", TYPES[:6])) == [["c0", "c1"]]
    assert launches_of(with_types("c0", TYPES), with_types("c1", TYPES[:5])) == [["c0"], ["c1"]]
    assert launches_of(with_types("c0", TYPES[:5]), with_types("c1", TYPES)) == [["c0"], ["c1"]]


def in_zones(name: str, zones: int) -> ClaimRecord:
    """A claim that accepts one type in so many zones."""
    offerings = tuple(Offering("m5.large", f"zone-{number}", labels.SPOT, 1) for number in range(zones))
    return msgspec.structs.replace(a_record(name), offerings=offerings)


def test_three_quarters_of_many_offerings_are_as_exact() -> None:
    for common, launches in ((150, [["c0", "c1"]]), (149, [["c0"], ["c1"]])):
        assert launches_of(in_zones("c0", 200), in_zones("c1", common)) == launches


def test_claims_of_different_cheapest_types_are_launched_apart() -> None:
    """Otherwise, one of them would get a dearer type than planned."""
    assert launches_of(with_types("c0", TYPES), with_types("c1", TYPES[1:])) == [["c0"], ["c1"]]


def test_claims_whose_offerings_are_counted_keep_all_of_them() -> None:
    """MinValues hold for what is asked for, and a reservation takes so many instances."""
    families = Requirement.of("karpenter.k8s.aws/instance-family", "Exists", min_values=2)
    types = (TYPES, TYPES[:7], TYPES)
    counted = [with_types(f"c{n}", kinds, families) for n, kinds in enumerate(types)]
    assert launches_of(*counted) == [["c0", "c2"], ["c1"]]
    reserved = [with_types(f"c{n}", kinds, capacity_type=labels.RESERVED) for n, kinds in enumerate(types)]
    assert launches_of(*reserved) == [["c0", "c2"], ["c1"]]


def in_subnets(name: str, zones: str, **subnets: str) -> ClaimRecord:
    """A claim of the same type in several zones."""
    offerings = tuple(Offering("m5.large", zone, labels.SPOT, 1) for zone in zones)
    return msgspec.structs.replace(a_record(name), offerings=offerings, subnets=subnets)


def test_claims_in_different_subnets_are_launched_apart() -> None:
    """A request has one subnet for each type and zone."""
    claims = [in_subnets(f"c{n}", "a", a=f"a{n % 2}") for n in range(4)]
    assert launches_of(*claims) == [["c0", "c2"], ["c1", "c3"]]


def test_zones_in_which_two_claims_have_different_subnets_are_left_out_of_their_launch() -> None:
    first, second = in_subnets("c0", "abcd", a="a1", b="b1"), in_subnets("c1", "abcd", a="a1", b="b2")
    shared = share_launches([first, second], token_of)
    assert {record.token for record in shared} == {"of-c0"}
    assert [[offering.zone for offering in record.offerings] for record in shared] == [["a", "c", "d"]] * 2
    assert {record.subnets["a"] for record in shared} == {"a1"}
    assert launches_of(first, in_subnets("c1", "abcd", a="a2", b="b1")) == [["c0"], ["c1"]], "the cheapest stays"


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


def test_claims_are_launched_apart_if_only_one_requests_interfaces_of_its_own() -> None:
    """The request names network interfaces once for all its instances; an amount of zero requests none."""
    wanted = {"c0": {}, "c1": {EFA: 0}, "c2": {EFA: 1}, "c3": {EFA: 2}}
    records = []
    for name, resources in wanted.items():
        record = with_types(name, TYPES)
        plan = msgspec.structs.replace(record.plan, resources={"cpu": 1, **resources})
        records.append(msgspec.structs.replace(record, plan=plan))
    assert launches_of(*records) == [["c0", "c1"], ["c2", "c3"]]


def test_a_claim_is_unanswered_until_anything_is_known_of_its_launch() -> None:
    """Whoever takes an answered one along launches a second instance for it."""
    waiting = a_record("c1", first="c0", shares=2)
    leaving = Deletion(reason="Expired", asked_at=NOW)
    assert is_unanswered(waiting, "c0")
    assert not is_unanswered(None, "c0")
    for changes in ({"first": "c1"}, {"attempts": 1}, {"phase": ClaimPhase.LAUNCHED}, {"deletion": leaving}):
        assert not is_unanswered(msgspec.structs.replace(waiting, **changes), "c0")


# The claims of a plan are distributed over the subnets of a zone.


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
    return NodeClass(name=name, subnets=tuple((subnet, subnet[0]) for subnet in subnets), addresses_per_node=per_node)


def subnets_of(records: Sequence[ClaimRecord], snapshot: Snapshot) -> list[dict[str, str]]:
    return [record.subnets for record in with_subnets(records, snapshot)]


def test_each_claim_gets_the_subnet_with_most_addresses_left() -> None:
    """Its pods take further addresses of the same subnet."""
    claims = [a_claim(n, "a") for n in range(4)]
    subnets = subnets_of(claims, a_snapshot({"a1": 2, "a2": 4}))
    assert subnets == [{"a": "a2"}, {"a": "a2"}, {"a": "a1"}, {"a": "a2"}]


@given(
    free=st.dictionaries(st.sampled_from(("a1", "a2", "a3")), st.integers(0, 40), min_size=2),
    per_node=st.sampled_from((1, 17)),
)
def test_no_subnet_is_asked_for_more_than_it_has_while_another_has_room(free: dict[str, int], per_node: int) -> None:
    """EC2 would refuse the launch, and the subnet would be avoided for minutes."""
    nodes = sum(count // per_node for count in free.values())
    snapshot = a_snapshot(free, a_class(*free, per_node=per_node))
    requests_by_subnet = Counter(
        subnet["a"] for subnet in subnets_of([a_claim(n, "a") for n in range(nodes)], snapshot)
    )
    assert sum(requests_by_subnet.values()) == nodes
    assert all(count * per_node <= free[subnet] for subnet, count in requests_by_subnet.items())


def test_a_claim_takes_addresses_in_each_zone_where_it_may_be_launched() -> None:
    """EC2 chooses the zone."""
    claims = [a_claim(n, zones) for n, zones in enumerate(("ab", "a", "b"))]
    subnets = subnets_of(claims, a_snapshot({"a1": 2, "a2": 2, "b1": 3, "b2": 3}))
    assert subnets == [{"a": "a1", "b": "b1"}, {"a": "a2"}, {"b": "b2"}]


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
    node_class = a_class("a1", "a2", "b1", "c1", "c2", per_node=4)
    assert full_zones(node_class, {"a1": 3, "a2": 2, "b1": 4, "c1": 0}) == {"a"}
    assert full_zones(node_class, {"a1": 3, "a2": 4, "b1": 3}) == {"b"}


# Groups of pods that start together.


def of_group(record: ClaimRecord, group: str) -> ClaimRecord:
    plan = msgspec.structs.replace(record.plan, annotations={labels.GROUP_OF_CLAIM: group})
    return msgspec.structs.replace(record, plan=plan)


def test_the_claims_of_a_group_share_a_launch_with_nobody_else() -> None:
    """EC2 launches all of them or none, and others may be launched in part."""
    records = [a_record("a"), of_group(a_record("b"), "ml/x"), of_group(a_record("c"), "ml/x"), a_record("d")]
    shared = share_launches(records, token_of)
    assert [record.first for record in shared] == ["a", "b", "b", "a"]
    assert [least_instances(record) for record in shared] == [1, 2, 2, 1]


def test_a_group_in_several_zones_has_no_minimum() -> None:
    """EC2 promises one only for one zone or one type."""
    first = of_group(a_record("a", shares=2), "ml/x")
    elsewhere = msgspec.structs.replace(first.offerings[0], zone="us-east-1b")
    wide = msgspec.structs.replace(first, offerings=(*first.offerings, elsewhere))
    assert (least_instances(first), least_instances(wide)) == (2, 1)


def test_launches_for_one_group_are_sent_in_turn() -> None:
    """Once one of them is refused, the others are not sent; launches for nobody's group wait for nobody."""
    launches = [[of_group(a_record("b"), "ml/x")], [a_record("a")], [of_group(a_record("c"), "ml/x")], [a_record("d")]]
    assert [[launch[0].name for launch in group] for group in by_group(launches)] == [["b", "c"], ["a"], ["d"]]


GROUP = "Annotation/default/g"
HELD = PlannedGroup(
    name="default/g",
    source=GroupSource.ANNOTATION,
    members=2,
    minimum=2,
    placed=1,
    reason=PodReason.GROUP_INCOMPLETE,
    message="1 of 2",
)
WHOLE = msgspec.structs.replace(HELD, placed=2, reason="", message="")
BOTH, ONE = ("m-0", "m-1"), ("m-0",)


def starting(*, noted: int | None = None, age: int = 60, group: str = GROUP, **changes: Any) -> ClaimRecord:
    """A claim whose node starts for one pod, and is noted as in vain since so many seconds."""
    record = of_group(a_record("a"), group)
    plan, since = msgspec.structs.replace(record.plan, pods=("default/m-0",)), NOW - timedelta(seconds=age)
    moments = Moments(unneeded_at=None if noted is None else NOW - timedelta(seconds=noted))
    fields = {"phase": ClaimPhase.LAUNCHED, "plan": plan, "phase_since": since, "moments": moments}
    return msgspec.structs.replace(record, **(fields | changes))


@pytest.mark.parametrize(
    ("planned", "pods", "noted", "phase", "is_given_back"),
    [
        (HELD, BOTH, None, ClaimPhase.LAUNCHED, True),
        (HELD, BOTH, None, ClaimPhase.REGISTERED, True),
        (HELD, BOTH, None, ClaimPhase.INITIALIZED, False),
        (HELD, BOTH, None, ClaimPhase.REQUESTED, False),
        (WHOLE, BOTH, 60, ClaimPhase.LAUNCHED, False),
        # A member has not been created again yet: it may come, however long ago the node was launched.
        (HELD, ONE, None, ClaimPhase.LAUNCHED, False),
        (HELD, ONE, 44, ClaimPhase.LAUNCHED, False),
        (HELD, ONE, 45, ClaimPhase.LAUNCHED, True),
        # The group is deleted while its nodes start, or its controller creates all its pods again.
        (None, (), None, ClaimPhase.LAUNCHED, False),
        (None, (), 60, ClaimPhase.LAUNCHED, True),
        # It became smaller: nobody comes to this node.
        (WHOLE, ("m-1", "m-2"), None, ClaimPhase.LAUNCHED, False),
        (WHOLE, ("m-1", "m-2"), 60, ClaimPhase.LAUNCHED, True),
    ],
)
def test_a_node_that_starts_for_nobody_is_given_back(
    planned: PlannedGroup | None, pods: tuple[str, ...], noted: int | None, phase: ClaimPhase, *, is_given_back: bool
) -> None:
    record = starting(noted=noted, phase=phase)
    marks = {labels.GROUP: "g", labels.GROUP_MINIMUM: "2"}
    snapshot = Snapshot(now=NOW, pods=tuple(a_pod(name, annotations=marks) for name in pods))
    groups = () if planned is None else (planned,)
    assert bool(starts_for_nobody(Plan(now=NOW, groups=groups), snapshot, [record]).given_back) is is_given_back
    used = Plan(now=NOW, groups=groups, bindings=(Binding("default/other", "a"),))
    no_time = Plan(
        now=NOW, groups=groups, unschedulable=(Unschedulable("default/m-1", PodReason.DEADLINE_REACHED, ""),)
    )
    for plan in (used, no_time):
        assert starts_for_nobody(plan, snapshot, [record]).given_back == []


def test_an_absence_counts_from_when_it_is_first_seen_until_the_members_are_back() -> None:
    """One look between a member's deletion and its replacement ended all starting nodes of an older launch."""
    marks = {labels.GROUP: "g", labels.GROUP_MINIMUM: "2"}
    one_pod, both = (tuple(a_pod(f"m-{n}", annotations=marks) for n in range(count)) for count in (1, 2))
    record, grace = starting(age=600), timedelta(seconds=45)

    def look(seconds: int, pods: tuple[Pod, ...]) -> StartsInVain:
        now = NOW + timedelta(seconds=seconds)
        return starts_for_nobody(Plan(now=now), Snapshot(now=now, pods=pods), [record])

    first = look(0, one_pod)
    ((_, record),) = first.noted
    assert (first.given_back, first.next_at) == ([], NOW + grace), "a run must come by then"
    again = look(44, one_pod)
    assert (again.noted, again.next_at) == ([], NOW + grace)
    back = look(50, both)
    ((_, record),) = back.noted
    assert (back.given_back, back.next_at) == ([], None)
    second = look(100, one_pod)
    ((_, record),) = second.noted
    assert second.given_back == []
    assert len(look(145, one_pod).given_back) == 1


@pytest.mark.parametrize(
    ("members", "running", "noted", "after"),
    [
        (ONE, "", None, NOW),
        (ONE, "", 30, NOW - timedelta(seconds=30)),
        (BOTH, "", 30, None),
        (ONE, "a", 30, None),
        ((), "", None, None),
    ],
    ids=["missing", "still missing", "back", "a member runs there", "the group is gone"],
)
def test_a_row_notes_since_when_a_ready_node_misses_members(
    members: tuple[str, ...], running: str, noted: int | None, after: datetime | None
) -> None:
    """One look between a member's deletion and its replacement ended the ready nodes of the whole group."""
    marks = {labels.GROUP: "g", labels.GROUP_MINIMUM: "2"}
    phase = "Running" if running else "Pending"
    pods = tuple(a_pod(name, annotations=marks, node_name=running, phase=phase) for name in members)
    record, snapshot = starting(noted=noted, phase=ClaimPhase.INITIALIZED), Snapshot(now=NOW, pods=pods)
    changes = ready_for_nobody(Plan(now=NOW), snapshot, [record]).noted
    assert [changed.moments.unneeded_at for _, changed in changes] == [after] * (after != record.moments.unneeded_at)
    assert ready_for_nobody(Plan(now=NOW), snapshot, [starting(noted=noted)]).noted == []


@pytest.mark.parametrize(
    ("changes", "is_half"),
    [
        ({}, True),
        ({"planned": WHOLE}, False),
        ({"planned": None}, False),
        ({"notes": {labels.GROUP_DISRUPTION: "single"}}, False),
        ({"notes": {labels.DO_NOT_DISRUPT: "true"}}, False),
        ({"waiting_since": NOW}, False),
        ({"elsewhere": 1}, False),
        ({"neighbour": "other"}, False),
        ({"neighbour": "daemon"}, True),
    ],
    ids=["half", "a plan completes it", "unplanned", "elastic", "kept", "lost", "whole", "neighbour", "daemon"],
)
def test_half_a_group_that_never_was_whole_is_given_back_after_five_minutes(
    changes: dict[str, Any], is_half: bool
) -> None:
    """Its third instance never joined and EC2 had no other: two of three members ran for ever, and did nothing."""
    marks = {labels.GROUP: "g", labels.GROUP_MINIMUM: "2"} | changes.get("notes", {})
    begun, since = NOW - timedelta(minutes=20), changes.get("waiting_since", NOW - timedelta(minutes=30))
    pods = [
        a_pod("m-0", annotations=marks, node_name="a", phase="Running", created_at=since, started_at=begun),
        a_pod("m-1", annotations=marks, created_at=since),
    ]
    if "elsewhere" in changes:
        pods.append(a_pod("m-2", annotations=marks, node_name="b", phase="Running", started_at=begun))
    if "neighbour" in changes:
        owner = Owner("DaemonSet" if changes["neighbour"] == "daemon" else "ReplicaSet", "o", is_controller=True)
        pods.append(a_pod("other", node_name="a", phase="Running", owners=(owner,)))
    planned = changes.get("planned", HELD)
    plan, snapshot = Plan(now=NOW, groups=(planned,) if planned else ()), Snapshot(now=NOW, pods=tuple(pods))

    def look(noted: int | None) -> StartsInVain:
        return ready_for_nobody(plan, snapshot, [starting(noted=noted, phase=ClaimPhase.INITIALIZED)])

    assert [changed.moments.unneeded_at for _, changed in look(None).noted] == [NOW] * is_half
    assert look(None).next_at == (NOW + HALF_RUNS_FOR if is_half else None)
    assert (look(299).given_back, bool(look(300).given_back)) == ([], is_half)


def test_the_pods_are_read_once_for_all_nodes_that_start() -> None:
    """Two hundred nodes among 20,000 pods took more than a second of each look."""
    visits = []

    class Pods(tuple[Pod, ...]):
        __slots__ = ()

        def __iter__(self) -> Iterator[Pod]:
            visits.append(1)
            return super().__iter__()

    marks = {labels.GROUP: "g", labels.GROUP_MINIMUM: "2"}
    for placed in ("a", "elsewhere"):
        pods = Pods((a_pod("m-0", node_name=placed, annotations=marks), a_pod("other", node_name="n")))
        counts = []
        for number in (1, 20):
            visits.clear()
            records = [starting(name=f"c{n}", noted=60) for n in range(number)]
            assert len(starts_for_nobody(Plan(now=NOW), Snapshot(now=NOW, pods=pods), records).given_back) == number
            counts.append(len(visits))
        assert counts[0] == counts[1]


def test_a_node_whose_pods_run_elsewhere_starts_for_nobody() -> None:
    """Otherwise nobody gives it back: its pods exist, and no plan expects one there.

    A waiting pod may be expected on the claim: groups lost each node that took over a minute to boot (seed 118).
    """
    record = starting(noted=60, phase=ClaimPhase.REGISTERED, node_name="own")
    for node, in_vain in (("other", True), ("own", False), ("", False), ("a", False)):
        marks = {labels.GROUP: "g", labels.GROUP_MINIMUM: "1"}
        snapshot = Snapshot(now=NOW, pods=(a_pod("m-0", node_name=node, annotations=marks),))
        assert bool(starts_for_nobody(Plan(now=NOW), snapshot, [record]).given_back) is in_vain


@pytest.mark.parametrize(
    ("change", "is_given_back"),
    [
        ({}, True),
        # It may still become complete: a member has not been created again yet.
        ({"noted": 1}, False),
        # Its node has just joined: the rest would start on it.
        ({"age": 1, "joined": True}, True),
        # Running pods are not stopped for the sake of a node.
        ({"phase": "Running"}, False),
        ({"minimum": "1"}, False),
        # Another workload counts on the node.
        ({"others": 1}, False),
    ],
    ids=str,
)
def test_a_node_on_which_the_rest_of_a_smaller_group_is_expected_is_given_back(
    change: dict[str, Any], *, is_given_back: bool
) -> None:
    """No member has to be planned for, so no plan names the group; the rest started, half of it for nothing."""
    wanted = {"age": 60, "noted": 60, "phase": "Pending", "minimum": "2", "others": 0, "joined": False} | change
    record = starting(noted=wanted["noted"], age=wanted["age"])
    if wanted["joined"]:
        record = msgspec.structs.replace(record, phase=ClaimPhase.REGISTERED, node_name="a")
    marks = {labels.GROUP: "g", labels.GROUP_MINIMUM: wanted["minimum"]}
    member = msgspec.structs.replace(a_pod("m-0", node_name="a", annotations=marks), phase=wanted["phase"])
    others = tuple(a_pod(f"other-{number}", node_name="a") for number in range(wanted["others"]))
    snapshot = Snapshot(now=NOW, pods=(member, *others))
    given_back = starts_for_nobody(Plan(now=NOW), snapshot, [record]).given_back
    assert bool(given_back) is is_given_back
    assert all("1 of 2 members can be planned for" in message for _, message in given_back)


def test_a_plan_decides_about_a_node_that_may_start_for_nobody() -> None:
    """Otherwise nothing looks at it while no pod waits."""
    record = starting()
    assert may_start_for_nobody([record], ())
    assert not may_start_for_nobody([record], {"default/m-0"})
    both = msgspec.structs.replace(record.plan, pods=("default/m-0", "default/m-1"))
    assert may_start_for_nobody([starting(plan=both)], {"default/m-0"})
    assert may_start_for_nobody([starting(group="PodGroup/default/g")], {"default/m-0"})
    assert may_start_for_nobody([starting(noted=1)], {"default/m-0"}), "the next absence has a grace of its own"


@pytest.mark.parametrize(("requests", "is_given_back"), [(("train",), False), ((), True)])
def test_a_node_for_pods_to_come_stays_while_their_request_does(
    requests: tuple[str, ...], *, is_given_back: bool
) -> None:
    plan = msgspec.structs.replace(starting().plan, pods=(), buffer_pods=("default/train-room-0-1",))
    record = of_group(starting(noted=60, plan=plan), "ProvisioningRequest/default/train")
    open_ = tuple(
        ProvisioningRequest(namespace="default", name=name, provisioning_class=ATOMIC_SCALE_UP) for name in requests
    )
    snapshot = Snapshot(now=NOW, provisioning_requests=open_)
    assert bool(starts_for_nobody(Plan(now=NOW), snapshot, [record]).given_back) is is_given_back
