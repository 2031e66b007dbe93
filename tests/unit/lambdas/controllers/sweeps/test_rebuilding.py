"""Instances with our tag that no claim has: a claim waits for them, they only lack a name, or they are strangers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from adapters.observation.observer import ClusterState
from adapters.ports import Instance
from adapters.store import UnreadableRow
from core import labels
from core.lifecycle.claims import REGISTRATION_TIMEOUT
from core.lifecycle.launching import launch_name
from core.lifecycle.records import ClaimPhase, ClaimRecord, Moments
from core.manifests.wire import resources
from core.model.snapshot import Node
from lambdas.controllers.sweeps.rebuilding import UnclaimedInstances, untracked
from tests.builders import NOW, a_snapshot
from tests.fakes.lab import Lab, a_joining_node, a_node_pool, a_pending_pod
from tests.unit.lambdas.controllers.sweeps.instances.instances_for_tests import ALONE, a_fleet, ids, lose
from tests.unit.lifecycle.records_for_tests import a_record

# Rows get lost while instances run: claims are rebuilt from instances, nodes and NodePools.


def be_older(lab: Lab) -> None:
    """The only row is older than the node."""
    record = lab.claim
    lab.rows.claims[record.name] = msgspec.structs.replace(
        record, phase=ClaimPhase.LAUNCHED, node_name="", initialized_at=None
    )


def what_lasts(record: ClaimRecord) -> ClaimRecord:
    """A claim without the fields that a row may lose: its moments, its pods, and its decision."""
    annotations = {key: value for key, value in record.plan.annotations.items() if key != labels.DECISION}
    requirements = tuple(r for r in record.plan.requirements if r.key != labels.INSTANCE_TYPE)
    plan = msgspec.structs.replace(
        record.plan,
        pods=(),
        instance_types=(),
        zones=(),
        capacity_types=(),
        price=0,
        requirements=requirements,
        annotations=annotations,
    )
    return msgspec.structs.replace(
        record,
        plan=plan,
        token="",
        shares=1,
        first="",
        share=0,
        version=0,
        requested_at=NOW,
        phase_since=NOW,
        initialized_at=NOW,
        moments=Moments(),
        last_pod_event_at=None,
        pods_digest="",
        nominated=(),
        checked_until=None,
    )


CAPS = [
    {"name": "all", "limits": {"dollars-per-hour": "50"}},
    {"name": "team", "pods": {"namespaces": ["default"]}, "limits": {"cpu": "100"}},
]
CALENDAR = {"apiVersion": "fleetwright.dev/v1alpha1", "kind": "Calendar", "metadata": {"name": "costs"}}


@pytest.mark.parametrize("caps", [[], CAPS], ids=["limits", "caps"])
def test_lost_rows_are_rebuilt_and_nothing_is_terminated(caps: list[dict[str, Any]]) -> None:
    """Otherwise, a restored or mistyped table ends the whole fleet within a minute, or caps forget what it costs."""
    lab = a_fleet(3, {**CALENDAR, "spec": {"caps": caps}})
    assert [len(claim.counters) for claim in lab.claims] == [1 + len(caps)] * 3
    before = {claim.name: what_lasts(claim) for claim in lab.claims}
    usage = lab.app.adapters.stores.claims.usage()
    running = ids(lab)
    assert all(claim.phase is ClaimPhase.INITIALIZED for claim in lab.claims)
    lose(lab)
    lab.clock.advance(minutes=5)
    report = lab.reconcile()
    assert {claim.name: what_lasts(claim) for claim in lab.claims} == before
    assert [(u.node_pool, u.reserved) for u in lab.app.adapters.stores.claims.usage()] == [
        (u.node_pool, u.reserved) for u in usage
    ]
    lab.tick(20, seconds=30)
    lab.reconcile()
    assert (ids(lab), lab.kubernetes.evicted) == (running, [])
    assert report.counts["rebuiltClaims"] == 3


def test_a_rebuilt_claim_drifts_exactly_when_the_lost_one_did() -> None:
    """Otherwise, every node is replaced after a loss, or none that should be."""
    lab = a_fleet(1)
    hashes = {key: lab.claim.plan.annotations[key] for key in (labels.NODEPOOL_HASH, labels.NODECLASS_HASH)}
    lab.kubernetes.put(a_node_pool(template={"expireAfter": "1h"}))
    lose(lab)
    lab.kubernetes.amend(
        resources.NODES,
        lab.kubernetes.names(resources.NODES)[0],
        {"metadata": {"annotations": dict.fromkeys(hashes, "forged")}},
    )
    lab.clock.advance(minutes=5)
    lab.reconcile()
    assert {key: lab.claim.plan.annotations[key] for key in hashes} == hashes
    assert lab.claim.plan.expire_after == timedelta(hours=48)


def test_without_node_annotations_the_template_is_used() -> None:
    """Nodes that are older than these annotations must not be lost either."""
    lab = a_fleet(1)
    before = lab.claim
    name = lab.claim.node_name
    lab.kubernetes.amend(resources.NODES, name, {"metadata": {"annotations": {labels.CLAIM_SPEC: "{not json"}}})
    lose(lab)
    lab.clock.advance(minutes=5)
    lab.reconcile()
    assert lab.claim.labels == before.labels
    assert lab.claim.plan.expire_after == before.plan.expire_after
    assert lab.claim.plan.startup_taints == before.plan.startup_taints


def test_a_table_older_than_its_nodes_gives_them_no_startup_taints_again() -> None:
    """Otherwise, newer pods are evicted from a working node."""
    lab = a_fleet(1)
    be_older(lab)
    lab.clock.advance(hours=1)
    lab.reconcile()
    lab.tick(2)
    assert lab.claim.phase is ClaimPhase.INITIALIZED
    assert lab.kubernetes.raw(resources.NODES, lab.claim.node_name)["spec"]["taints"] == []


def test_a_node_newer_than_its_row_is_drained_before_its_instance_ends() -> None:
    """Otherwise, a copy of the table, or a crash while the node was opened, kills its pods."""
    lab = a_fleet(1)
    be_older(lab)
    lab.kubernetes.protected.add("default/p0")
    lab.kubernetes.drop(resources.NODE_POOLS, "default")
    lab.reconcile()
    lab.tick(10)
    assert lab.claim.deletion is not None
    assert ids(lab) == [lab.claim.instance_id]
    lab.kubernetes.protected.clear()
    lab.tick(20)
    assert (lab.kubernetes.evicted, ids(lab)) == (["default/p0"], [])


def test_a_node_that_joins_after_its_row_was_lost_is_adopted() -> None:
    """Its claim is rebuilt while it boots, and later gets the labels that only the kubelet knows."""
    lab = Lab()
    lab.kubernetes.put(
        a_node_pool(template={"requirements": [{"key": "company.com/team", "operator": "In", "values": ["a", "b"]}]}),
        a_pending_pod("p"),
    )
    lab.provision()
    (before,) = lab.claims
    lose(lab)
    lab.clock.advance(minutes=2)
    lab.reconcile()
    assert lab.claim.phase is ClaimPhase.LAUNCHED
    joining = a_joining_node("n", before.provider_id)
    lab.kubernetes.put({**joining, "metadata": {"name": "n", "labels": before.labels}})
    lab.tick(3)
    assert lab.claim.phase is ClaimPhase.INITIALIZED
    assert (lab.claim.instance_id, lab.claim.labels) == (before.instance_id, before.labels)
    assert lab.claim.labels["company.com/team"] == "a"


def test_limits_hold_while_rows_are_lost_and_instances_boot() -> None:
    """Otherwise, a NodePool exceeds its limit, and each pending pod gets a second machine (seeds 46, 66, 178)."""
    lab = Lab()
    lab.kubernetes.put(a_node_pool(limits={"nodes": "2"}))
    for name in ("p", "q", "r"):
        lab.kubernetes.put(a_pending_pod(name, metadata={"labels": {"a": "b"}}, affinity=ALONE))
    lab.provision()
    assert len(ids(lab)) == 2
    lose(lab)
    lab.clock.advance(seconds=20)
    report = lab.provision()
    assert len(ids(lab)) == len(lab.claims) == 2
    assert report.counts["rebuiltClaims"] == 2
    lose(lab, lab.claims[0].name)
    lab.rows.usage.clear()
    lab.clock.advance(seconds=20)
    lab.provision()
    assert len(ids(lab)) == len(lab.claims) == 2
    assert lab.rows.usage["default"].reserved["nodes"] == 2


def test_a_stored_claim_is_not_launched_beyond_a_limit_that_others_have_used() -> None:
    """Otherwise, launches requested before a loss are added to those requested after it."""
    lab = Lab(launches_per_run=0)
    lab.kubernetes.put(a_node_pool(limits={"nodes": "1"}), a_pending_pod("p"))
    lab.provision()
    lab.kubernetes.put(a_node_pool(limits={"nodes": "0"}))
    report = lab.execute()
    assert (lab.claims, ids(lab)) == ((), [])
    assert ("forget", "LimitReached") in {(d.kind, d.reason) for d in report.decisions}
    assert {"wakeUp": "claim given up"} in lab.wake_ups.take()


def test_counters_of_a_table_that_lost_some_rows_count_what_is_rebuilt() -> None:
    lab = a_fleet(2)
    lose(lab, lab.claims[0].name)
    right = dict(lab.rows.usage["default"].reserved)
    lab.clock.advance(minutes=5)
    decisions = [*lab.reconcile().decisions, *lab.reconcile().decisions]
    assert len(lab.claims) == 2
    assert (lab.rows.usage["default"].reserved, lab.rows.usage["default"].disrupting) == (right, 0)
    assert ("repair", "UsageRecounted") in {(d.kind, d.reason) for d in decisions}


def test_instances_of_one_request_are_named_after_their_claims() -> None:
    """Otherwise, a lost table would leave nodes whose tags do not say which claim they are."""
    lab = a_fleet(3, is_named=False)
    assert len({instance.tags[labels.CLAIM] for instance in lab.cloud.instances()}) == 1
    lab.reconcile()
    tags = {instance.instance_id: instance.tags for instance in lab.cloud.instances()}
    for key in (labels.CLAIM, labels.NODECLAIM, "Name"):
        assert {instance: instance_tags[key] for instance, instance_tags in tags.items()} == {
            claim.instance_id: claim.name for claim in lab.claims
        }


def test_claims_of_instances_that_were_never_named_are_rebuilt_under_names_of_their_own() -> None:
    """If the table is lost right after a launch, nothing is ended and every instance gets one claim."""
    lab = a_fleet(3, is_named=False)
    running = ids(lab)
    lose(lab)
    lab.clock.advance(minutes=5)
    lab.reconcile()
    lab.reconcile()
    assert ids(lab) == running
    assert sorted(claim.instance_id for claim in lab.claims) == running
    assert {instance.tags[labels.CLAIM] for instance in lab.cloud.instances()} == {claim.name for claim in lab.claims}


def test_a_claim_is_launched_though_others_exceed_a_limit_of_which_it_takes_nothing() -> None:
    """Otherwise, a lowered limit of GPUs keeps every other node away."""
    lab = Lab(launches_per_run=0)
    lab.kubernetes.put(a_node_pool(limits={"example.com/gpu": "1"}), a_pending_pod("p"))
    lab.provision()
    usage = lab.rows.usage["default"]
    lab.rows.usage["default"] = msgspec.structs.replace(usage, reserved={**usage.reserved, "example.com/gpu": 10**9})
    lab.execute()
    assert len(ids(lab)) == 1


YOUNG = timedelta(minutes=1)


def an_instance(number: int, claim: str, *, age: timedelta = YOUNG, state: str = "running", **tags: str) -> Instance:
    claim_tags = {labels.CLAIM: claim, labels.NODEPOOL: "default"}
    return Instance(
        instance_id=f"i-{number}",
        instance_type="m5.large",
        zone="us-east-1a",
        capacity_type="spot",
        state=state,
        launched_at=NOW - age,
        tags={**claim_tags, **tags},
    )


def unnamed(number: int, launch: str) -> Instance:
    """An instance of a shared launch that has its launch's name."""
    return an_instance(number, launch, **{labels.LAUNCH: launch})


def a_claim(name: str, **changes: Any) -> ClaimRecord:
    return msgspec.structs.replace(a_record(**changes), name=name)


def waiting(name: str, **changes: Any) -> ClaimRecord:
    """A claim whose launch got no answer."""
    return a_claim(name, phase=ClaimPhase.REQUESTED, attempts=1, **changes)


def found_in(
    *instances: Instance,
    claims: tuple[ClaimRecord, ...] = (),
    nodes: tuple[Node, ...] = (),
    age: timedelta = YOUNG,
    unreadable: tuple[UnreadableRow, ...] = (),
) -> UnclaimedInstances:
    view = ClusterState(
        snapshot=a_snapshot(nodes=nodes),
        claims={claim.name: claim for claim in claims},
        commands=(),
        node_pools={"default": {}},
        node_classes={},
        unreadable_rows=unreadable,
    )
    return untracked(instances, view, NOW, min_age=age)


def a_node(name: str, instance: Instance) -> Node:
    return Node(name=name, provider_id=instance.provider_id)


def problems(classified: UnclaimedInstances) -> list[str]:
    return [stray.problem for stray in classified.unclaimed]


def test_the_instance_of_a_known_claim_is_none_of_them() -> None:
    classified = found_in(an_instance(1, "c"), claims=(a_claim("c"),))
    assert (classified.awaited, classified.unnamed, classified.unclaimed, classified.tagged) == ((), (), (), 1)


@pytest.mark.parametrize(
    "instance",
    [
        an_instance(7, "x", state="terminated"),
        an_instance(7, "x", state="shutting-down"),
        msgspec.structs.replace(an_instance(7, "x"), tags={}),
    ],
    ids=["terminated", "ending", "without our tag"],
)
def test_what_is_gone_or_not_ours_is_left_out(instance: Instance) -> None:
    classified = found_in(instance)
    assert (classified.unclaimed, classified.tagged) == ((), 0)


def test_the_instance_of_a_claim_that_cannot_be_read_is_left_out() -> None:
    """Its claim exists, so a second one would be built, or the instance ended as unknown, for one mistyped row."""
    row = UnreadableRow("cluster#claims#3", "x", "row x cannot be read")
    old = timedelta(days=1)
    assert found_in(an_instance(7, "x", age=old), unreadable=(row,)).unclaimed == ()
    assert len(found_in(an_instance(7, "y", age=old), unreadable=(row,)).unclaimed) == 1
    command = msgspec.structs.replace(row, partition="cluster#commands")
    assert len(found_in(an_instance(7, "x", age=old), unreadable=(command,)).unclaimed) == 1


@pytest.mark.parametrize(
    ("names", "unreadable", "is_left_out"),
    [
        (("default-a-0",), "default-a-1", True),
        ((), "default-a-1", True),
        (("default-a-0",), "default-b-1", False),
        (("default-a-0", "default-a-1"), "default-a-2", False),
        ((), "other-a-1", False),
    ],
    ids=[
        "may be its claim",
        "no claim is left",
        "of another plan",
        "all of the launch are read",
        "of another NodePool",
    ],
)
def test_an_unnamed_instance_is_left_out_if_the_claim_that_cannot_be_read_may_share_its_launch(
    names: tuple[str, ...], unreadable: str, is_left_out: bool
) -> None:
    """One mistyped row must not keep the instances of all launches: they cost money, and their pods wait for them."""
    readable = tuple(a_claim(name, token="t", shares=2, share=index) for index, name in enumerate(names))
    row = UnreadableRow("cluster#claims#3", unreadable, f"row {unreadable} cannot be read")
    classified = found_in(unnamed(7, "launch-t"), claims=readable, unreadable=(row,))
    assert (classified.unclaimed == ()) is is_left_out


class TestAStranger:
    """Its row is lost, or it never had one."""

    def test_can_have_its_claim_rebuilt(self) -> None:
        instance = an_instance(7, "x")
        classified = found_in(instance)
        assert [(stray.instance, stray.node, stray.problem) for stray in classified.unclaimed] == [(instance, None, "")]
        assert classified.rebuildable == classified.unclaimed

    def test_comes_with_its_node(self) -> None:
        instance = an_instance(7, "x")
        classified = found_in(instance, nodes=(a_node("n", instance), a_node("m", an_instance(8, "y"))))
        assert [stray.node.name for stray in classified.unclaimed if stray.node is not None] == ["n"]

    def test_with_two_nodes_comes_without_any(self) -> None:
        """One of them is stale, and which is not known."""
        instance = an_instance(7, "x")
        classified = found_in(instance, nodes=(a_node("n", instance), a_node("m", instance)))
        assert [stray.node for stray in classified.unclaimed] == [None]

    @pytest.mark.parametrize(("age", "count"), [(timedelta(seconds=59), 0), (YOUNG, 1)])
    def test_that_was_launched_just_now_may_be_stored_in_a_moment(self, age: timedelta, count: int) -> None:
        assert len(found_in(an_instance(7, "x", age=age)).unclaimed) == count

    def test_whose_name_another_instance_has_is_one_too_many(self) -> None:
        classified = found_in(an_instance(7, "c"), claims=(a_claim("c"),))
        assert problems(classified) == ["claim c has another instance, i-1"]
        assert classified.rebuildable == ()

    @pytest.mark.parametrize("joined", [(), (9,), (8,)])
    def test_with_copied_tags_gets_no_claim_in_place_of_the_instance_whose_tags_they_are(
        self, joined: tuple[int, ...]
    ) -> None:
        """Otherwise the instance itself would be drained as unknown. It is the one that has joined, else the oldest."""
        first, copy = an_instance(9, "x", age=2 * YOUNG), an_instance(8, "x")
        nodes = tuple(a_node(f"n-{number}", first if number == 9 else copy) for number in joined)
        classified = found_in(first, copy, nodes=nodes)
        original = copy if joined == (8,) else first
        assert [stray.instance for stray in classified.rebuildable] == [original]
        assert [stray.is_copy for stray in classified.unclaimed] == [
            stray.instance != original for stray in classified.unclaimed
        ]

    @pytest.mark.parametrize(
        ("tags", "problem"),
        [
            ({labels.NODEPOOL: "gone"}, "its NodePool gone does not exist"),
            ({labels.NODEPOOL: ""}, "its NodePool (none) does not exist"),
            ({labels.NODEPOOL: "", labels.MADE_BY_HAND: "uid"}, ""),
        ],
    )
    def test_needs_its_node_pool_unless_its_node_claim_was_made_by_hand(
        self, tags: dict[str, str], problem: str
    ) -> None:
        assert problems(found_in(an_instance(7, "x", **tags))) == [problem]

    @pytest.mark.parametrize(("age", "is_late"), [(REGISTRATION_TIMEOUT, True), (REGISTRATION_TIMEOUT - YOUNG, False)])
    def test_that_should_have_joined_by_now_and_has_not_is_not_rebuilt(self, age: timedelta, *, is_late: bool) -> None:
        """Its claim would be removed at once; where nodes cannot be listed, that would be the whole fleet."""
        instance = an_instance(7, "x", age=age)
        assert bool(problems(found_in(instance))[0]) is is_late
        assert problems(found_in(instance, nodes=(a_node("n", instance),))) == [""]

    def test_of_several_the_first_id_comes_first(self) -> None:
        classified = found_in(an_instance(9, "z"), an_instance(7, "x"), an_instance(8, "y"))
        assert [stray.instance.instance_id for stray in classified.unclaimed] == ["i-7", "i-8", "i-9"]
        assert classified.tagged == 3


class TestAnAwaitedInstance:
    """EC2's answer to its launch was lost."""

    def test_is_its_claims(self) -> None:
        instance = an_instance(7, "c")
        classified = found_in(instance, claims=(waiting("c"),))
        assert (classified.awaited, classified.unclaimed) == (((instance, "c"),), ())

    def test_of_a_shared_launch_goes_to_its_claims_in_turn(self) -> None:
        claims = [waiting(name, shares=3, share=share) for name, share in (("a", 1), ("b", 0), ("c", 2))]
        launch = launch_name(claims[0])
        instances = [unnamed(number, launch) for number in (9, 7, 8)]
        classified = found_in(*instances, claims=tuple(claims))
        assert [(instance.instance_id, name) for instance, name in classified.awaited] == [
            ("i-7", "b"),
            ("i-8", "a"),
            ("i-9", "c"),
        ]

    def test_beyond_the_claims_of_its_launch_is_a_stranger(self) -> None:
        claim = waiting("a", shares=2, share=0)
        launch = launch_name(claim)
        classified = found_in(unnamed(7, launch), unnamed(8, launch), claims=(claim,))
        assert [instance.instance_id for instance, _ in classified.awaited] == ["i-7"]
        assert [stray.instance.instance_id for stray in classified.unclaimed] == ["i-8"]

    def test_that_was_named_already_goes_to_the_claim_of_that_name(self) -> None:
        """The run that named it died before it stored the row."""
        claim = waiting("a", shares=2, share=1)
        named = an_instance(7, "a", **{labels.LAUNCH: launch_name(claim)})
        classified = found_in(named, claims=(claim,))
        assert [(instance.instance_id, name) for instance, name in classified.awaited] == [("i-7", "a")]


def test_an_instance_of_a_known_claim_that_has_its_launchs_name_is_to_be_named() -> None:
    record = a_claim("c", shares=2)
    classified = found_in(unnamed(1, launch_name(record)), claims=(record,))
    assert [(instance.instance_id, name) for instance, name in classified.unnamed] == [("i-1", "c")]
    named = an_instance(1, "c", **{labels.LAUNCH: launch_name(record)})
    assert found_in(named, claims=(record,)).unnamed == ()
