"""What an observation reads, which depends on what the pods need."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import msgspec
import pytest

from adapters.observation.observer import (
    NOMINATIONS_VALID_FOR,
    ClusterState,
    OpenMarket,
    awaits_pods,
    displaced_pods,
    has_unavailable,
    is_requested,
    measured,
    with_current_class_hash,
    with_current_pool_hash,
    with_expected_pods,
    with_own_state,
    without_denied,
    without_full_subnets,
    without_oversized_pools,
    without_unavailable,
    without_zones,
)
from adapters.ports import JsonObject, TransientError
from core import labels
from core.brakes import Brake, BrakeKind
from core.launch.denials import DenialScope, LaunchDenial, revision_of, subnet_key
from core.lifecycle.claims import INITIALIZATION_TIMEOUT, node_claim, requested_claim
from core.lifecycle.records import ClaimPhase, ClaimRecord, CommandPhase, CommandRecord, Deletion
from core.manifests.wire import resources
from core.model.catalogue import Catalogue, OfferingKey
from core.model.node_pool import Disruption, NodeClass, NodePool
from core.model.plan import Command
from core.model.pod import Owner, Pod
from core.model.snapshot import CapacityBuffer, EvictedNode, MovedWorkload, Node, Snapshot
from core.model.values.quotas import QuotaReading
from tests.builders import NOW, ZONES, a_class_manifest, a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.fakes.lab import Lab, a_pending_pod
from tests.fakes.store import Rows
from tests.fakes.world import FakeCatalogues, FakeClock
from tests.unit.lifecycle.records_for_tests import PROVIDER_ID, a_command, a_node, a_plan, a_record

# Nodes are compared with what NodePools and EC2NodeClasses are now, whatever their own annotations say yet.


OLD = {"note": "x", labels.NODEPOOL_HASH: "old", labels.NODECLASS_HASH: "old"}


def test_a_pool_has_its_present_hash_beside_its_other_annotations() -> None:
    annotations = with_current_pool_hash(a_pool(template_hash="new", own_annotations=OLD)).own_annotations
    assert annotations == {**OLD, labels.NODEPOOL_HASH: "new", labels.NODEPOOL_HASH_VERSION: labels.HASH_VERSION}
    without = a_pool(own_annotations=OLD)
    assert with_current_pool_hash(without) is without


def test_a_class_has_its_present_hash_beside_its_other_annotations() -> None:
    annotations = with_current_class_hash(NodeClass(name="a", spec_hash="new", own_annotations=OLD)).own_annotations
    assert annotations == {**OLD, labels.NODECLASS_HASH: "new", labels.NODECLASS_HASH_VERSION: labels.HASH_VERSION}
    without = NodeClass(name="a", own_annotations=OLD)
    assert with_current_class_hash(without) is without


# Pods of a plan count on the claim that was planned for them until its node takes pods, and no longer.


TICK = timedelta(microseconds=1)
GOING = Deletion(reason="Empty", asked_at=NOW)
EXPECTED_PODS_OTHER = msgspec.structs.replace(a_node_of(a_type(), "other")[0], name="other")


def cluster(*pods: Pod, has_node: bool = True) -> Snapshot:
    """The claims `c` and `other`, and the node of `c` if it has joined."""
    claim = msgspec.structs.replace(EXPECTED_PODS_OTHER, name="c", node_name="", provider_id=PROVIDER_ID)
    nodes = (a_node(name="n"), a_node(name="nameless", provider_id="")) if has_node else ()
    return a_snapshot(pods=pods, nodes=nodes, node_claims=(EXPECTED_PODS_OTHER, claim))


def places(pod: Pod, *records: ClaimRecord, has_node: bool = True, **sets: Any) -> tuple[str, str]:
    """Where the pod counts afterwards, and its nomination."""
    (placed,) = with_expected_pods(cluster(pod, has_node=has_node), records, **sets).pods
    return placed.node_name, placed.nominated_node_name


def test_pods_wait_for_a_launched_node_until_it_takes_pods_leaves_or_is_late() -> None:
    waiting, requested = set(), set()
    for phase, deletion, pods, age in product(
        ClaimPhase, (None, GOING), ((), ("default/p",)), (INITIALIZATION_TIMEOUT - TICK, INITIALIZATION_TIMEOUT)
    ):
        record = a_record(phase, plan=a_plan(pods=pods), deletion=deletion, age=age)
        case = (phase.value, deletion is not None, len(pods), age >= INITIALIZATION_TIMEOUT)
        waiting |= {case} if awaits_pods(record, NOW) else set()
        requested |= {case} if is_requested(record) else set()
    assert waiting == {
        ("launched", False, 1, False), ("launched", False, 1, True), ("registered", False, 1, False),
    }  # fmt: skip
    assert requested == {("requested", False, 1, False), ("requested", False, 1, True)}


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({}, "n"),
        ({"name": "stranger"}, ""),
        ({"namespace": "elsewhere"}, ""),
        ({"node_name": "other"}, "other"),
        ({"node_name": "leaves"}, "n"),
        ({"node_name": "leaves", "is_terminating": True}, "leaves"),
        ({"name": "stranger", "node_name": "leaves"}, "leaves"),
        ({"is_terminating": True}, "n"),
    ],
)
@pytest.mark.parametrize("phase", [ClaimPhase.REQUESTED, ClaimPhase.LAUNCHED])
def test_a_pod_counts_on_the_claim_that_was_planned_for_it(
    phase: ClaimPhase, changes: dict[str, Any], place: str
) -> None:
    """On its node, or under its own name while it has none; a pod that runs stays, unless its node leaves."""
    fields = {key: value for key, value in changes.items() if key != "is_terminating"}
    deleted = {"deleted_at": NOW} if changes.get("is_terminating") else {}
    pod = a_pod(**{"name": "p", **fields, **deleted})
    assert pod.is_terminating is bool(deleted)
    joined = "c" if phase is ClaimPhase.REQUESTED else "n"  # before its launch no node is its own
    assert places(pod, a_record(phase), leaving=("leaves",)) == (joined if place == "n" else place, "")
    assert places(pod, a_record(phase), has_node=False, leaving=("leaves",)) == ("c" if place == "n" else place, "")


def test_nothing_is_expected_on_a_claim_that_a_command_removes() -> None:
    assert places(a_pod(), a_record(ClaimPhase.LAUNCHED), removed=("c",)) == ("", "")
    assert places(a_pod(), a_record(ClaimPhase.LAUNCHED), removed=("other",)) == ("n", "")


def test_the_claim_is_on_the_node_on_which_its_pods_count() -> None:
    """Otherwise, their room is taken from no node."""
    for has_node, name in ((True, "n"), (False, "c")):
        snapshot = with_expected_pods(cluster(a_pod(), has_node=has_node), [a_record(ClaimPhase.LAUNCHED)])
        assert {claim.name: claim.node_name for claim in snapshot.node_claims} == {
            "other": EXPECTED_PODS_OTHER.node_name,
            "c": name,
        }


VALID: tuple[str, str] = ("n", "")
"""It counts as bound."""

ENDED: tuple[str, str] = ("", "")
"""It is planned again, and nothing is reserved for it."""


@pytest.mark.parametrize(
    ("changes", "sets", "expected"),
    [
        ({"initialized_at": NOW}, {}, VALID),
        ({"initialized_at": NOW - NOMINATIONS_VALID_FOR + TICK}, {}, VALID),
        ({"initialized_at": NOW - NOMINATIONS_VALID_FOR}, {}, ENDED),
        ({"initialized_at": None}, {}, ENDED),
        ({"initialized_at": NOW, "deletion": GOING}, {}, ENDED),
        ({"initialized_at": NOW}, {"removed": ("c",)}, ENDED),
        ({"initialized_at": NOW, "nominated": ("default/q",)}, {}, ("", "n")),
        ({"initialized_at": NOW, "node_name": "m"}, {}, ("", "n")),
    ],
)
def test_a_nominated_pod_counts_as_bound_for_two_minutes(
    changes: dict[str, Any], sets: dict[str, Any], expected: tuple[str, str]
) -> None:
    """A nomination that is not ours, for this node and this pod, stays as it is."""
    record = a_record(**{"nominated": ("default/p",), **changes})
    assert places(a_pod(nominated_node_name="n"), record, **sets) == expected


def test_a_nominated_pod_that_runs_meanwhile_stays_where_it_is() -> None:
    """Also on a node that leaves: its plan is another."""
    record = a_record(nominated=("default/p",), initialized_at=NOW)
    for leaving in ((), ("other",)):
        assert places(a_pod(nominated_node_name="n", node_name="other"), record, leaving=leaving) == ("other", "n")


def test_where_nothing_is_expected_the_snapshot_stays_the_same() -> None:
    snapshot = cluster(a_pod())
    assert with_expected_pods(snapshot, [a_record(ClaimPhase.INITIALIZED)]) is snapshot


SCRATCH = {"name": "scratch", "emptyDir": {}}
DATA = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
VOLUME_CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "default"},
    "spec": {"storageClassName": "gp3"},
}
STORAGE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "gp3"},
    "provisioner": "ebs.csi.aws.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def planned_and_listed(*pods: object) -> tuple[list[str], set[str]]:
    """Pods that get a node, and the lists that were requested for it."""
    lab, calls = Lab(), list[str]()
    lab.kubernetes.put(STORAGE, VOLUME_CLAIM, *pods)
    lab.kubernetes.before_call = calls.append
    lab.provision()
    listed = {call.removeprefix("list ") for call in calls if call.startswith("list ")}
    return sorted(pod for claim in lab.claims for pod in claim.plan.pods), listed


def test_claims_of_volumes_are_read_where_any_pod_has_one() -> None:
    """Otherwise, the pod's claim counts as missing, and the pod gets no node beside pods that only have scratch space."""
    pods = (a_pending_pod("a", volumes=[SCRATCH]), a_pending_pod("b", volumes=[SCRATCH, DATA]), a_pending_pod("c"))
    planned, listed = planned_and_listed(*pods)
    assert planned == ["default/a", "default/b", "default/c"]
    assert {kind.plural for kind in (resources.PERSISTENT_VOLUME_CLAIMS, resources.STORAGE_CLASSES)} <= listed


def test_no_volumes_are_listed_where_no_pod_has_one() -> None:
    """Each list of a large cluster costs the API server and the function time."""
    planned, listed = planned_and_listed(a_pending_pod("a", volumes=[SCRATCH]), a_pending_pod("c"))
    assert planned == ["default/a", "default/c"]
    assert resources.PERSISTENT_VOLUME_CLAIMS.plural not in listed


# The market of a decision lacks what cannot be launched now, and each lack has one cause.


LATER = NOW + timedelta(minutes=1)
TYPE = a_type()
CATALOGUE = Catalogue(default=(TYPE,))
SUBNETS = {"subnets": [{"id": f"s-{zone[-1]}", "zone": zone} for zone in ZONES]}
CLASS = a_class_manifest(metadata={"uid": "u", "generation": 1}, status=SUBNETS)
OTHER = a_class_manifest("other", metadata={"uid": "v", "generation": 1})
REFUSED = OfferingKey(TYPE.name, ZONES[0], labels.SPOT)


class World:
    """A market, and the rows and brakes that close parts of it."""

    def __init__(self) -> None:
        clock = FakeClock(NOW)
        self.rows, self.catalogues = Rows(clock), FakeCatalogues(CATALOGUE)
        stores = self.rows.stores()
        self.market = OpenMarket(self.catalogues, stores.unavailable, stores.denials, self.rows.brakes, stores.quotas)


@pytest.fixture
def world() -> World:
    return World()


def open_market_closed(catalogue: Catalogue, node_class: str = "default") -> set[tuple[str, str]]:
    """Zone and capacity type of what cannot be launched."""
    offerings = (offering for instance_type in catalogue.types_for(node_class) for offering in instance_type.offerings)
    return {(offering.zone, offering.capacity_type) for offering in offerings if not offering.available}


def test_a_market_that_was_read_says_when(world: World) -> None:
    assert world.market.read_at() == (NOW, NOW)
    world.catalogues.kept = None
    assert world.market.read_at() == ()


def test_what_ec2_refused_is_closed_for_all_and_a_zone_for_the_class_whose_subnets_there_are_full(
    world: World,
) -> None:
    assert open_market_closed(world.market.catalogue((CLASS, OTHER), NOW)) == set()
    world.rows.refused = {REFUSED: LATER, subnet_key("s-b"): LATER}
    catalogue = world.market.catalogue((OTHER, CLASS), NOW)
    refused = {(ZONES[0], labels.SPOT)}
    assert open_market_closed(catalogue) == refused | {(ZONES[1], labels.SPOT), (ZONES[1], labels.ON_DEMAND)}
    assert open_market_closed(catalogue, "other") == refused


def test_places_in_a_reservation_are_taken_by_claims(world: World) -> None:
    reservation = {
        "id": "cr-1", "instanceType": TYPE.name, "availabilityZone": ZONES[0], "ownerID": "1", "state": "active",
        "instanceMatchCriteria": "targeted", "reservationType": "default", "tenancy": "default",
    }  # fmt: skip
    places = {"annotations": {labels.RESERVATION_PLACES: '{"cr-1": 1}'}}
    with_places = a_class_manifest(metadata=places, status={**SUBNETS, "capacityReservations": [reservation]})
    (reserved,) = (
        offering for offering in world.market.catalogue([with_places], NOW).types_for("default")[0].offerings
        if offering.reservation_id
    )  # fmt: skip
    claim = a_record(ClaimPhase.REQUESTED, offerings=(reserved,))
    free_places = [
        offering.reservation_capacity
        for claims in ((), (claim,))
        for offering in world.market.catalogue([with_places], NOW, claims).types_for("default")[0].offerings
        if offering.reservation_id
    ]
    assert free_places == [1, 0]


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({}, True),
        ({"until": NOW}, False),
        ({"revision": "u/2"}, False),
        ({"node_class": "unknown"}, False),
        ({"node_class": "other", "revision": revision_of(OTHER)}, True),
    ],
)
def test_a_denial_counts_while_it_pauses_a_class_that_exists_and_has_not_changed(
    world: World, changes: dict[str, object], counts: bool
) -> None:
    denial = LaunchDenial(node_class="default", code="x", scope=DenialScope(), revision=revision_of(CLASS), until=LATER)
    denial = msgspec.structs.replace(denial, **changes)
    world.rows.denials[denial.node_class, denial.code] = denial
    assert world.market.denials((CLASS, OTHER), NOW) == ((denial,) if counts else ())


@pytest.mark.parametrize(("zone", "name"), [("use1-az2", ZONES[1]), (ZONES[2], ZONES[2]), ("", "")])
def test_nothing_is_launched_where_traffic_is_shifted_away_from(world: World, zone: str, name: str) -> None:
    """Brakes name zones by their ids, which nodes know; a name stays a name."""
    if zone:
        world.rows.brakes.hold(Brake(BrakeKind.ZONAL_SHIFT, "away", zone=zone), NOW)
    node = Node(name="n", labels={labels.ZONE_ID: "use1-az2", labels.ZONE: ZONES[1]})
    snapshot = a_snapshot(types=(TYPE,), nodes=(node,))
    shifted = world.market.without_shifted_zones(snapshot)
    assert open_market_closed(shifted.catalogue) == ({(name, labels.SPOT), (name, labels.ON_DEMAND)} if zone else set())
    assert msgspec.structs.replace(shifted, catalogue=snapshot.catalogue) == snapshot


def test_quotas_are_those_that_others_leave_and_none_where_they_cannot_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = a_snapshot()
    assert world.market.with_quotas(snapshot) == snapshot
    used = {"test": {"q": 8}, "": {"q": 30}}
    world.rows.quotas.save(QuotaReading(limits={"q": 100}, used=used, limits_read_at=NOW, used_read_at=NOW))
    assert world.market.with_quotas(snapshot) == msgspec.structs.replace(snapshot, vcpu_quotas={"q": 70})

    def fail() -> None:
        raise TransientError("dynamodb:GetItem", "throttled")

    monkeypatch.setattr(world.rows.quotas, "reading", fail)
    assert world.market.with_quotas(snapshot) == snapshot


def test_free_addresses_are_known_where_any_class_has_few_and_none_in_a_subnet_that_refused(world: World) -> None:
    reading = {"annotations": {labels.SUBNET_ADDRESSES: "{}"}}
    few = a_class_manifest("few", metadata=reading, status=SUBNETS)
    snapshot = a_snapshot()
    world.rows.refused = {subnet_key("s-b"): LATER, REFUSED: LATER}
    assert world.market.with_addresses(snapshot, (CLASS, OTHER), ()) is snapshot
    for classes in ((few,), (CLASS, few, OTHER)):
        with_addresses = world.market.with_addresses(snapshot, iter(classes), ())
        assert with_addresses == msgspec.structs.replace(snapshot, subnet_addresses={"s-b": 0})


def test_without_refusals_everything_but_shifted_zones_is_open(world: World) -> None:
    """It says what a plan would cost if EC2 had not refused anything."""
    world.rows.refused = {REFUSED: LATER}
    world.rows.brakes.hold(Brake(BrakeKind.ZONAL_SHIFT, "away", zone=ZONES[2]), NOW)
    refusing = world.market.catalogue((CLASS, OTHER), NOW)
    view = ClusterState(
        snapshot=a_snapshot(catalogue=refusing),
        claims={"c": a_record(ClaimPhase.REQUESTED, plan=a_plan())},
        commands=(),
        node_pools={},
        node_classes={"other": OTHER, "default": CLASS},
    )
    unrefused = world.market.without_refusals(view)
    assert open_market_closed(unrefused.catalogue) == {(ZONES[2], labels.SPOT), (ZONES[2], labels.ON_DEMAND)}
    assert msgspec.structs.replace(unrefused, catalogue=refusing) == view.snapshot


# The observation joined with the table.


HOUR = timedelta(hours=1)
WEB = (Owner("ReplicaSet", "web"),)


def joined(snapshot: Snapshot, *records: ClaimRecord, commands: tuple[CommandRecord, ...] = ()) -> Snapshot:
    return with_own_state(snapshot, records, commands, nominated_until={}, moved_workloads={}, evicted_nodes={})


def named(name: str, phase: ClaimPhase = ClaimPhase.INITIALIZED, **changes: object) -> ClaimRecord:
    pods = changes.pop("pods", ())
    plan = a_plan(name=name, pods=pods, node_pool=changes.pop("pool", "default"), buffer_pods=changes.pop("buffer", ()))
    return msgspec.structs.replace(a_record(phase, plan=plan), name=name, **changes)


def test_claims_are_those_with_an_instance_and_those_that_are_requested_for_pods() -> None:
    """A node that is only asked for has no room for anybody else's pods."""
    running, requested = named("runs"), named("asked", ClaimPhase.REQUESTED, pods=("default/p",))
    spare = named("spare", ClaimPhase.REQUESTED, buffer=("shop/spare-0",))
    gone = named("gone", ClaimPhase.REQUESTED, pods=("default/q",), deletion=Deletion(reason="Empty", asked_at=NOW))
    snapshot = joined(a_snapshot(), running, requested, spare, gone)
    never = a_pool().disruption.consolidate_after
    assert snapshot.node_claims == (
        node_claim(running, never, NOW),
        msgspec.structs.replace(requested_claim(requested, NOW), node_name="asked"),
    )


def test_each_claim_is_consolidatable_by_the_terms_of_its_own_pool() -> None:
    pools = (
        a_pool("quick", disruption=Disruption(consolidate_after=timedelta(0))),
        a_pool("slow", disruption=Disruption(consolidate_after=2 * HOUR)),
        a_pool("never", disruption=Disruption(consolidate_after=None)),
    )
    records = [named(pool, pool=pool, initialized_at=NOW - HOUR) for pool in ("quick", "slow", "never", "unknown")]
    snapshot = joined(a_snapshot(node_pools=pools), *records)
    assert [claim.name for claim in snapshot.node_claims if claim.is_true("Consolidatable")] == ["quick"]


def removing(*claims: str, phase: CommandPhase, reason: str = "Empty") -> CommandRecord:
    command = Command(reason=reason, method="emptiness", nodes=claims, claims=claims)
    return msgspec.structs.replace(a_command(phase), command=command)


def test_claims_of_commands_that_have_begun_are_leaving_by_name() -> None:
    commands = (
        removing("z", "b", phase=CommandPhase.REPLACING),
        removing("a", phase=CommandPhase.STARTING),
        removing("later", phase=CommandPhase.VERIFYING),
    )
    assert joined(a_snapshot(), commands=commands).marked_for_deletion == ("a", "b", "z")


def test_members_of_groups_stay_on_a_claim_that_a_command_removes_for_drift() -> None:
    """While the command waits for replacements, the claim itself does not say why it goes."""
    plan = a_plan(termination_grace_period=HOUR)
    records = [msgspec.structs.replace(a_record(plan=plan), name=name) for name in "abc"]
    commands = (
        removing("a", phase=CommandPhase.STARTING, reason="Drifted"),
        removing("b", phase=CommandPhase.STARTING, reason="Unhealthy"),
        removing("c", phase=CommandPhase.VERIFYING, reason="Drifted"),
    )
    claims = joined(a_snapshot(), *records, commands=commands).node_claims
    assert [claim.name for claim in claims if claim.lets_groups_end] == ["a"]


def test_pods_of_nodes_that_leave_by_a_command_or_by_themselves_count_on_their_replacements() -> None:
    """Those of a node whose command still waits for its check stay."""
    pods = tuple(a_pod(f"of-{node}", node_name=node, owners=WEB) for node in ("a", "b", "c", "d"))
    new = named("new", ClaimPhase.LAUNCHED, pods=tuple(pod.key for pod in pods))
    leaves = Deletion(reason="Expired", asked_at=NOW)
    records = [
        *(named(name, node_name=name) for name in ("a", "b", "d")),
        named("c", node_name="c", deletion=leaves),
        msgspec.structs.replace(named("nameless", ClaimPhase.LAUNCHED), deletion=leaves),
        new,
    ]
    commands = (removing("a", phase=CommandPhase.STARTING), removing("b", phase=CommandPhase.VERIFYING))
    snapshot = joined(a_snapshot(pods=pods), *records, commands=commands)
    assert {pod.name: pod.node_name for pod in snapshot.pods} == {
        "of-a": "new", "of-b": "b", "of-c": "new", "of-d": "d",
    }  # fmt: skip


def test_buffers_are_not_planned_again_for_pods_of_theirs_that_are_requested() -> None:
    spec = a_pod().spec
    buffers = tuple(CapacityBuffer(namespace=space, name="x", pods=3, spec=spec) for space in ("shop", "bank"))
    requested = named("asked", ClaimPhase.REQUESTED, buffer=("shop/x-1", "shop/x-0", "shopping/y-0"))
    launched = named("launched", ClaimPhase.LAUNCHED, buffer=("shop/x-2",))
    leaves = Deletion(reason="Empty", asked_at=NOW)
    gone = named("gone", ClaimPhase.REQUESTED, buffer=("bank/x-0",), deletion=leaves)
    snapshot = joined(a_snapshot(buffers=buffers), requested, launched, gone)
    assert [buffer.requested for buffer in snapshot.buffers] == [("x-0", "x-1"), ()]


def test_what_the_table_remembers_is_in_the_snapshot() -> None:
    moved = {"w": MovedWorkload(name="w", moving_since=NOW, moved_at=NOW)}
    evicted = {"c": EvictedNode(node_pool="default", pods=3, at=NOW)}
    snapshot = with_own_state(
        a_snapshot(), (), (), nominated_until={"n": NOW}, moved_workloads=moved, evicted_nodes=evicted
    )
    assert (snapshot.nominated_until, snapshot.moved_workloads, snapshot.evicted_nodes) == ({"n": NOW}, moved, evicted)


def test_pods_that_must_move_are_listed_for_each_claim_whose_drain_may_wait() -> None:
    """In order; a DaemonSet's pod ends with its node, and a drain that has begun waits for nobody."""
    ends = Deletion(reason="Interrupted", asked_at=NOW, ends_at=NOW + HOUR)
    begun = msgspec.structs.replace(ends, evicted_at=NOW)
    records = (
        named("second", node_name="s", deletion=ends),
        named("first", node_name="f", deletion=ends),
        named("begun", node_name="b", deletion=begun),
        named("stays", node_name="x"),
        msgspec.structs.replace(named("unjoined", ClaimPhase.LAUNCHED), deletion=ends),
    )
    pods: tuple[Pod, ...] = (
        a_pod("z", node_name="s", owners=WEB),
        a_pod("a", node_name="s", owners=WEB),
        a_pod("daemon", node_name="s", owners=(Owner("DaemonSet", "d"),)),
        *(a_pod(f"on-{node}", node_name=node, owners=WEB) for node in "bx"),
        a_pod("pending", owners=WEB),
    )
    assert displaced_pods(records, pods) == {"first": (), "second": ("default/a", "default/z")}
    assert list(displaced_pods(records, pods)) == ["first", "second"]


# NodePools whose user data is too long get no nodes, and an answer that is missing keeps none of them from it.


CLASSES = {"default": a_class_manifest()}


def problem_of(manifest: JsonObject, pool: NodePool) -> str:
    if pool.name == "fails":
        raise TransientError("ssm:GetParameter", "throttled")
    return f"too long for {manifest['metadata']['name']}" if pool.name == "long" else ""


def test_a_pool_that_is_too_long_says_so() -> None:
    assert measured(a_pool("long"), CLASSES, problem_of) == a_pool("long", problem="too long for default")
    assert measured(a_pool("short"), CLASSES, problem_of) == a_pool("short")


def test_a_pool_without_its_class_and_one_that_has_a_problem_stay_as_they_are() -> None:
    broken = a_pool("long", problem="spec.limits: is invalid")
    assert measured(broken, CLASSES, problem_of) is broken
    assert measured(a_pool("long"), {}, problem_of) == a_pool("long")


def test_each_pool_of_a_snapshot_is_measured_although_one_cannot_be() -> None:
    pools = tuple(a_pool(name) for name in ("fails", "long", "short"))
    measured = without_oversized_pools(a_snapshot(node_pools=pools), CLASSES, problem_of)
    assert measured == a_snapshot(node_pools=(pools[0], a_pool("long", problem="too long for default"), pools[2]))


# What EC2 refused or denied is not launched, and still prices what runs: those offerings alone, for those classes alone.


A, B = "us-east-1a", "us-east-1b"
TYPES = tuple(a_type(name, zones=(A, B), price=price) for name, price in (("small", 0.1), ("large", 0.4)))
PLAIN = Catalogue(default=TYPES)
BOTH = Catalogue(default=TYPES, by_node_class={"other": TYPES})
EVERY = frozenset(offering.key for instance_type in TYPES for offering in instance_type.offerings)


def closed(catalogue: Catalogue, node_class: str = "default") -> frozenset[OfferingKey]:
    """What a class cannot launch; nothing but the availability of offerings has changed."""
    types = catalogue.types_for(node_class)
    offerings = [offering for instance_type in types for offering in instance_type.offerings]
    assert [instance_type.name for instance_type in types] == [instance_type.name for instance_type in TYPES]
    assert [(o.key, o.price) for o in offerings] == [
        (o.key, o.price) for instance_type in TYPES for o in instance_type.offerings
    ]
    return frozenset(offering.key for offering in offerings if not offering.available)


def of(**values: str) -> frozenset[OfferingKey]:
    return frozenset(key for key in EVERY if all(getattr(key, name) == value for name, value in values.items()))


@pytest.mark.parametrize("refused", [frozenset(), of(zone=A, instance_type="small"), EVERY, EVERY - of(zone=B)])
def test_refused_offerings_are_closed_for_all_classes(refused: frozenset[OfferingKey]) -> None:
    catalogue = without_unavailable(BOTH, refused | {OfferingKey("unknown", A, labels.SPOT)})
    assert (closed(catalogue), closed(catalogue, "other")) == (refused, refused)
    assert has_unavailable(catalogue) is bool(refused)
    assert without_unavailable(BOTH, frozenset()) is BOTH


@pytest.mark.parametrize("catalogue", [PLAIN, BOTH])
def test_a_denial_closes_its_scope_for_its_own_class(catalogue: Catalogue) -> None:
    """Two denials of one class add up; a class that has no types of its own gets those of all, less what is denied to it."""
    scopes = (DenialScope(zones=(A,), instance_types=("small",)), DenialScope(capacity_types=(labels.SPOT,)))
    denials = [LaunchDenial(node_class="other", code="x", scope=scope) for scope in scopes]
    denied = without_denied(catalogue, denials)
    assert closed(denied, "other") == of(zone=A, instance_type="small") | of(capacity_type=labels.SPOT)
    assert closed(denied) == frozenset()
    assert has_unavailable(denied)
    assert not has_unavailable(without_denied(catalogue, ()))


def test_a_zone_is_closed_for_a_class_all_of_whose_subnets_there_are_full() -> None:
    subnets = {"default": [("s-1", A), ("s-2", A), ("s-3", B)], "other": [("s-1", A), ("s-9", B)], "none": []}
    catalogue = without_full_subnets(BOTH, subnets, {subnet_key("s-1"), subnet_key("s-3")})
    assert closed(catalogue) == of(zone=B)
    assert closed(catalogue, "other") == of(zone=A)
    assert sorted(catalogue.by_node_class) == ["default", "other"]
    assert closed(catalogue, "none") == frozenset()


@pytest.mark.parametrize("zones", [set(), {A}, {A, B}, {"elsewhere"}])
def test_zones_from_which_traffic_is_shifted_are_closed(zones: set[str]) -> None:
    catalogue = without_zones(BOTH, zones)
    wanted = frozenset(key for key in EVERY if key.zone in zones)
    assert (closed(catalogue), closed(catalogue, "other")) == (wanted, wanted)


def test_a_type_that_only_a_class_of_its_own_has_is_closed_there() -> None:
    catalogue = Catalogue(default=(), by_node_class={"other": TYPES})
    assert closed(without_zones(catalogue, {A}), "other") == of(zone=A)
    assert has_unavailable(without_zones(catalogue, {A}))
