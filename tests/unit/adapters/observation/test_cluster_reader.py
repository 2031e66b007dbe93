"""Which kinds an observation lists, and what becomes of objects that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from adapters.observation.cluster_reader import (
    ABSENT_ASKED_EVERY,
    ASKED_EVERY,
    CURRENT_ONLY,
    HELD_FOR,
    KEPT_FOR,
    LEASE,
    UNBOUND,
    ClusterReader,
    CurrentNodeClasses,
    KarpenterPresence,
    KeptLists,
    lacks_partition,
    machine_of,
    with_partition,
)
from adapters.ports import (
    ConflictError,
    DeniedError,
    Instance,
    JsonObject,
    Kubernetes,
    ListChanges,
    Listing,
    NotFoundError,
    PortError,
    TransientError,
)
from core import labels
from core.api.status import is_stale
from core.catalogue.capacity import EFA
from core.lifecycle.records import Machine
from core.manifests.assemble import ObjectProblem
from core.manifests.wire import decoding, resources
from core.manifests.wire.resources import Resource
from core.model.catalogue import Catalogue, Offering
from core.model.node_pool import NodePool
from core.model.plan import PlannedClaim
from core.model.pod import TopologySpread
from core.model.snapshot import FeatureGates, Options
from core.model.values.requirements import Requirement
from core.scheduling import schedule
from simulator.clock import VirtualClock
from simulator.cluster import Cluster
from simulator.cluster.api import ClusterApi
from simulator.record import Recorder
from tests.builders import CLASS_REF, NOW, a_class_manifest, a_pod, a_pool, a_snapshot, a_type
from tests.fakes.lab import Lab, a_joining_node, a_node_pool, a_pending_pod
from tests.fakes.world import FakeClock

ALWAYS = {
    "nodes",
    "nodepools",
    "ec2nodeclasses",
    "daemonsets",
    "poddisruptionbudgets",
    "namespaces",
    "priorityclasses",
} | {"calendars"}
OWNERS = {"services", "replicasets", "statefulsets", "replicationcontrollers"}
ADMISSION = {"limitranges", "runtimeclasses"}
SPREAD = TopologySpread("zone", 1, selector=None)


class SettingsWith:
    """The settings that a reader asks: these options, of a function that acts or only observes."""

    def __init__(self, is_shadow: bool, **options: Any) -> None:
        self.is_shadow = is_shadow
        self._options = Options(**options)

    def options(self) -> Options:
        return self._options


def reader(*, is_shadow: bool = False, **options: Any) -> tuple[ClusterReader, Lab, list[str]]:
    """A reader of a cluster with a pod and a node, and what it calls."""
    lab, called = Lab(), list[str]()
    lab.kubernetes.put(a_pending_pod("p"), a_joining_node("n", "aws:///us-east-1a/i-1"))
    lab.kubernetes.before_call = called.append
    settings: Any = SettingsWith(is_shadow, **options)
    return ClusterReader(lab.kubernetes, settings, lab.clock, CURRENT_ONLY), lab, called


def of_lists(calls: list[str]) -> list[str]:
    """Return the kinds that were listed, apart from one that this cluster does not serve."""
    listed = [call.removeprefix("list ") for call in calls if call.startswith("list ")]
    return [kind for kind in listed if kind != REQUESTS]


REQUESTS = resources.PROVISIONING_REQUESTS.plural


A_CALENDAR: JsonObject = {
    "apiVersion": "fleetwright.dev/v1alpha1",
    "kind": "Calendar",
    "metadata": {"name": "office"},
    "spec": {"rules": [{"name": "a", "settings": {"weight": 5}}]},
}


@pytest.mark.parametrize("error", [NotFoundError("list", "no such kind"), DeniedError("list", "forbidden")])
def test_calendars_are_not_asked_for_again_soon_where_there_are_none(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installation before this release's definitions and roles are applied works as before, and says what is missing."""
    cluster_reader, lab, calls = reader()

    def refused(call: str) -> None:
        calls.append(call)
        if call == "list calendars":
            raise error

    lab.kubernetes.before_call = refused
    objects = cluster_reader.complete()
    assert objects.by_kind[resources.CALENDARS] == ()
    assert [problem.subject for problem in objects.rejected] == (
        ["Calendars"] if isinstance(error, DeniedError) else []
    )
    calls.clear()
    cluster_reader.complete()
    assert "calendars" not in of_lists(calls)
    lab.clock.advance(seconds=ABSENT_ASKED_EVERY.total_seconds())
    cluster_reader.complete()
    assert "calendars" in of_lists(calls)


def test_that_there_is_no_calendar_is_remembered_for_a_while() -> None:
    """An idle cluster is asked less than three times a minute in all."""
    reading, lab, calls = reader()
    reading.complete()
    reading.complete()
    assert of_lists(calls).count("calendars") == 1
    lab.clock.advance(seconds=ABSENT_ASKED_EVERY.total_seconds())
    lab.kubernetes.put(A_CALENDAR)
    for _ in range(2):
        assert reading.complete().by_kind[resources.CALENDARS]
    assert of_lists(calls).count("calendars") == 3


def test_provisioning_requests_are_read_with_their_templates_only_where_they_are_served() -> None:
    """Each version that may be served is tried once in a while; where there are requests, they are listed each time."""
    reading, lab, calls = reader()
    assert not reading.awaits_requests()
    assert resources.PROVISIONING_REQUESTS not in reading.complete().by_kind
    assert calls.count(f"list {REQUESTS}") == 2
    lab.clock.advance(seconds=ABSENT_ASKED_EVERY.total_seconds())
    spec = {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io"}
    done = {"conditions": [{"type": "Failed", "status": "True"}]}
    request = {"kind": "ProvisioningRequest", "metadata": {"name": "r", "namespace": "default"}, "spec": spec}
    lab.kubernetes.put(request)
    assert reading.awaits_requests()
    assert resources.POD_TEMPLATES in reading.complete().by_kind
    lab.kubernetes.put(request | {"status": done})
    assert not reading.awaits_requests()


def test_calendars_are_part_of_every_observation() -> None:
    cluster_reader, lab, _ = reader()
    lab.kubernetes.put(A_CALENDAR)
    for objects in (cluster_reader.complete(), cluster_reader.without_pods(), cluster_reader.for_launches()):
        assert [obj["metadata"]["name"] for obj in objects.by_kind[resources.CALENDARS]] == ["office"]
    assert [obj["metadata"]["name"] for obj in cluster_reader.hours()[resources.CALENDARS]] == ["office"]


def test_an_observation_without_pods_lists_what_repair_needs() -> None:
    cluster_reader, _, calls = reader()
    objects = cluster_reader.without_pods()
    assert of_lists(calls) == ["nodes", "nodepools", "ec2nodeclasses", "calendars"]
    assert [node.metadata.name for node in objects.by_kind[resources.NODES]] == ["n"]
    assert (list(objects.node_pools()), list(objects.node_classes_by_name())) == (["default"], ["default"])


def test_a_whole_observation_lists_nodes_before_pods() -> None:
    """A pod that is bound in between counts on its node; the other way round its node would lack it."""
    cluster_reader, _, calls = reader()
    assert cluster_reader.complete().rejected == ()
    assert set(of_lists(calls)) == ALWAYS | {"pods"}
    assert of_lists(calls)[-1] == "pods"
    assert len(of_lists(calls)) == len(set(of_lists(calls)))


@pytest.mark.parametrize(
    ("settings", "more", "of_launches"),
    [
        ({}, set(), set()),
        ({"feature_gates": FeatureGates(node_overlay=True)}, {"nodeoverlays"}, {"nodeoverlays"}),
        ({"feature_gates": FeatureGates(capacity_buffer=True)}, {"capacitybuffers"}, set()),
        ({"is_shadow": True}, {"nodeclaims"}, set()),
        ({"default_spreads": (SPREAD,)}, OWNERS, set()),
    ],
)
def test_further_kinds_are_listed_where_a_setting_needs_them(
    settings: dict[str, Any], more: set[str], of_launches: set[str]
) -> None:
    """Each list of a large cluster costs the API server and the function time."""
    cluster_reader, _, calls = reader(**settings)
    cluster_reader.complete()
    assert set(of_lists(calls)) == ALWAYS | {"pods"} | more
    calls.clear()
    launches = cluster_reader.for_launches()
    assert of_lists(calls) == ["nodepools", "ec2nodeclasses", *of_launches]
    assert list(launches.node_classes_by_name()) == ["default"]
    assert list(launches.node_pools()) == ["default"]
    calls.clear()
    cluster_reader.without_pods()
    assert of_lists(calls) == ["nodes", "nodepools", "ec2nodeclasses", *of_launches]
    calls.clear()
    assert not cluster_reader.has_buffers()
    assert of_lists(calls) == sorted(more & {"capacitybuffers"})


def a_running_pod(kind: str, owner: str, generation: int = 1) -> JsonObject:
    owners = [{"apiVersion": "apps/v1", "kind": kind, "name": owner, "controller": True}]
    metadata = {"name": f"{owner}-0", "namespace": "default", "generation": generation, "ownerReferences": owners}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n1", "containers": []}}


@pytest.mark.parametrize(
    ("kind", "generation", "more"),
    [
        ("ReplicaSet", 1, set()),
        ("ReplicaSet", 2, {"replicasets"} | ADMISSION),
        ("StatefulSet", 1, {"statefulsets"} | ADMISSION),
        ("Job", 2, set()),
    ],
)
def test_templates_are_read_where_the_next_pod_may_differ(kind: str, generation: int, more: set[str]) -> None:
    """A resized pod of a ReplicaSet, or any of a StatefulSet; each list costs a call."""
    cluster_reader, lab, calls = reader()
    lab.kubernetes.put(a_running_pod(kind, "web", generation))
    calls.clear()
    cluster_reader.complete()
    assert set(of_lists(calls)) == ALWAYS | {"pods"} | more


@pytest.mark.parametrize("has_pod", [True, False])
def test_a_daemon_set_without_a_pod_is_read_with_what_admission_adds(*, has_pod: bool) -> None:
    """A running pod shows it."""
    cluster_reader, lab, calls = reader()
    lab.kubernetes.put(
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "log", "namespace": "default"}}
    )
    if has_pod:
        lab.kubernetes.put(a_running_pod("DaemonSet", "log"))
    calls.clear()
    cluster_reader.complete()
    assert set(of_lists(calls)) == ALWAYS | {"pods"} | (set() if has_pod else ADMISSION)


def test_buffers_that_name_workloads_have_these_listed_once() -> None:
    cluster_reader, lab, calls = reader(feature_gates=FeatureGates(capacity_buffer=True), default_spreads=(SPREAD,))
    scaled = {"apiGroup": "apps", "kind": "StatefulSet", "name": "web"}
    lab.kubernetes.put(
        {
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"name": "spare", "namespace": "default"}, "spec": {"replicas": 1, "scalableRef": scaled},
        }
    )  # fmt: skip
    assert cluster_reader.has_buffers()
    calls.clear()
    cluster_reader.complete()
    assert sorted(of_lists(calls)) == sorted(ALWAYS | {"pods", "capacitybuffers"} | OWNERS | ADMISSION)


def test_an_object_that_cannot_be_read_is_named_and_keeps_no_other_from_being_read() -> None:
    cluster_reader, lab, _ = reader()
    kind = resources.NAMESPACES
    for name, label in (("odd", 3), ("good", "a")):
        lab.kubernetes.put(
            {"apiVersion": "v1", "kind": kind.kind, "metadata": {"name": name, "labels": {"team": label}}}
        )
    objects = cluster_reader.complete()
    why = "metadata.labels.team: must be text, not a number: put it in quotes"
    assert objects.rejected == (
        ObjectProblem(resource=kind, position=-1, subject="Namespace odd", field="", problem=why),
    )
    assert [namespace.metadata.name for namespace in objects.by_kind[kind]] == ["good"]


def test_pools_and_classes_are_found_by_name_in_order() -> None:
    cluster_reader, lab, _ = reader()
    lab.kubernetes.put(a_node_pool("b"), a_node_pool("a"), a_class_manifest("b"), a_class_manifest("a"))
    objects = cluster_reader.without_pods()
    assert list(objects.node_pools()) == ["a", "b", "default"]
    assert list(objects.node_classes_by_name()) == ["a", "b", "default"]
    assert cluster_reader.node_class("b")["metadata"]["name"] == "b"
    assert objects.node_pools()["b"]["metadata"]["name"] == "b"


def test_pods_are_selected_by_the_api_server() -> None:
    cluster_reader, _, calls = reader()
    assert [pod.name for pod in cluster_reader.pods(UNBOUND)] == ["p"]
    assert of_lists(calls) == [f"pods {UNBOUND}"]
    assert cluster_reader.pods("spec.nodeName=n") == ()


# An edited EC2NodeClass launches nothing based on the status of its old spec.


def resolved(generation: int, ami: str = "ami-old") -> JsonObject:
    ready = {"type": "Ready", "status": "True", "observedGeneration": generation}
    return {"amis": [{"id": ami}], "conditions": [ready]}


def edited() -> JsonObject:
    return a_class_manifest(metadata={"generation": 2, "uid": "u"}, status=resolved(1))


@pytest.mark.parametrize(("generation", "stale"), [(1, True), (2, False)])
def test_a_status_belongs_to_a_generation(generation: int, stale: bool) -> None:
    assert is_stale(a_class_manifest(metadata={"generation": 2}, status=resolved(generation))) is stale


def test_a_class_without_a_status_is_not_stale() -> None:
    assert not is_stale(a_class_manifest(metadata={"generation": 2}))


def test_without_resolving_an_edited_class_is_not_ready() -> None:
    """Otherwise, replacements get the old image and the new hash, and never drift."""
    (current,) = CurrentNodeClasses().all([edited()], NOW)
    assert "amis" not in current["status"]
    assert current["status"]["conditions"][0]["status"] == "False"


def test_a_new_class_is_resolved_by_functions_that_may_and_left_as_it_is_by_others() -> None:
    """`provision` launched from it before EC2 was asked about it."""
    new = a_class_manifest(metadata={"generation": 1, "uid": "u"})
    (current,) = CurrentNodeClasses(lambda *_: resolved(1)).all([new], NOW)
    assert current["status"] == resolved(1)
    assert CurrentNodeClasses().all([new], NOW) == (new,)
    resolved_before = a_class_manifest(metadata={"generation": 1}, status=resolved(1, "ami-known"))
    assert CurrentNodeClasses(lambda *_: resolved(1)).all([resolved_before], NOW) == (resolved_before,)


def test_with_resolving_it_is_resolved_again_once_a_while() -> None:
    calls: list[str] = []

    def resolve(manifest: JsonObject, _: Sequence[NodePool]) -> JsonObject:
        calls.append(manifest["metadata"]["name"])
        return resolved(2, "ami-new")

    current = CurrentNodeClasses(resolve)
    for now in (NOW, NOW + timedelta(seconds=1), NOW + KEPT_FOR):
        (node_class,) = current.all([edited()], now)
        assert node_class["status"]["amis"] == [{"id": "ami-new"}]
    assert len(calls) == 2


def test_ec2_is_asked_about_what_the_pools_of_the_class_may_launch() -> None:
    """A NodePool of another class, or one that cannot be read, says nothing about it."""
    pool_names: list[str] = []

    def resolve(_: JsonObject, node_pools: Sequence[NodePool]) -> JsonObject:
        pool_names.extend(pool.name for pool in node_pools)
        return resolved(2)

    unreadable = {**a_node_pool("unreadable"), "spec": {"template": 3}}
    other = a_node_pool("other")
    other["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "other"
    CurrentNodeClasses(resolve).all([edited()], NOW, [a_node_pool("own"), unreadable, other])
    assert pool_names == ["own"]


def test_a_class_that_cannot_be_resolved_is_not_ready() -> None:
    def fail(_: JsonObject, __: Sequence[NodePool]) -> JsonObject:
        raise TransientError("ec2:DescribeSubnets", "timed out")

    (current,) = CurrentNodeClasses(fail).all([edited()], NOW)
    assert current["status"]["conditions"][0]["status"] == "False"


def ordered(lab: Lab) -> Any:
    """The parameters of the last request to EC2."""
    return lab.cloud.orders[-1]


def test_pods_do_not_wait_for_the_status_and_get_nodes_of_the_new_spec() -> None:
    """Otherwise, the node keeps the new hash and the old image forever."""
    lab = Lab()
    lab.reconcile()
    old = lab.kubernetes.raw(resources.EC2_NODE_CLASSES, "default")
    lab.kubernetes.amend(
        resources.EC2_NODE_CLASSES, "default", {"metadata": {"generation": 2}, "spec": {"detailedMonitoring": True}}
    )
    assert is_stale(lab.kubernetes.raw(resources.EC2_NODE_CLASSES, "default"))
    lab.cloud.resolution = resolved(2, "ami-new")
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    assert ordered(lab).node_class["status"]["amis"] == [{"id": "ami-new"}]
    assert lab.claim.plan.annotations[labels.NODECLASS_HASH] != old["metadata"]["annotations"][labels.NODECLASS_HASH]


def test_a_claim_planned_before_the_edit_has_the_hash_of_the_launched_spec() -> None:
    """Otherwise, it is replaced for a drift that it does not have."""
    lab = Lab(launches_per_run=1)
    lab.reconcile()
    lab.kubernetes.put(a_pending_pod("a", cpu="3"), a_pending_pod("b", cpu="3"))
    lab.provision()
    lab.kubernetes.amend(
        resources.EC2_NODE_CLASSES, "default", {"metadata": {"generation": 2}, "spec": {"detailedMonitoring": True}}
    )
    lab.tick(2)
    hashes = [claim.plan.annotations[labels.NODECLASS_HASH] for claim in lab.claims if claim.machine is not None]
    assert len(set(hashes)) == 2


# What a machine is described as: the partition of its placement group.


PARTITION = labels.PLACEMENT_GROUP_PARTITION
GROUPED = msgspec.structs.replace(
    a_type(), labels={**a_type().labels, labels.PLACEMENT_GROUP_ID: ("pg-1",), PARTITION: ("1", "2", "3")}
)


def an_instance(partition: int = 0) -> Instance:
    return Instance(
        instance_id="i-1",
        instance_type="m5.large",
        zone="us-east-1a",
        capacity_type="on-demand",
        state="running",
        launched_at=NOW,
        partition=partition,
    )


def described(*demanded: str, partition: int = 0) -> Machine:
    """The machine of a claim whose pod demands these partitions."""
    selector = (Requirement.one_of(PARTITION, *demanded),) if demanded else ()
    snapshot = a_snapshot(types=(GROUPED,), node_pools=(a_pool(),), pods=(a_pod(node_selector=selector),))
    claims: tuple[PlannedClaim, ...] = schedule(snapshot).claims
    return machine_of(an_instance(partition), claims[0], Catalogue((GROUPED,)))


@pytest.mark.parametrize(
    ("demanded", "partition", "expected"), [(("2",), 0, "2"), ((), 3, "3"), ((), 0, ""), (("2", "3"), 2, "2")]
)
def test_a_machine_is_in_the_partition_that_was_demanded_or_that_ec2_chose(
    demanded: tuple[str, ...], partition: int, expected: str
) -> None:
    machine = described(*demanded, partition=partition)
    assert machine.labels[PARTITION] == expected
    assert machine.labels[labels.PLACEMENT_GROUP_ID] == "pg-1"
    assert lacks_partition(machine) is not bool(expected)


def test_a_partition_that_ec2_tells_later_is_added() -> None:
    machine = with_partition(described(), an_instance(partition=3))
    assert machine.labels[PARTITION] == "3"
    assert not lacks_partition(machine)


def test_a_machine_without_a_placement_group_lacks_nothing() -> None:
    """Otherwise, every node waits at its registration."""
    (claim,) = schedule(a_snapshot(types=(a_type(),), node_pools=(a_pool(),), pods=(a_pod(),))).claims
    assert not lacks_partition(machine_of(an_instance(), claim, Catalogue((a_type(),))))


def an_instance_of(**changes: object) -> Instance:
    return msgspec.structs.replace(
        an_instance(), image_id="ami-1", subnet_id="s-1", security_groups=("sg-1", "sg-2"), **changes
    )


SIZED = msgspec.structs.replace(
    a_type(extra={EFA: "1"}), labels={**a_type().labels, "size": ("large",), "sku": ("a", "b"), "team": ("x", "y")}
)
PLAN = PlannedClaim(name="c", node_pool="default", node_class=CLASS_REF, requirements=(Requirement.one_of("sku", "b"),))


@pytest.mark.parametrize("interfaces", [0, 1])
def test_a_machine_is_described_whole(interfaces: int) -> None:
    """Of a label with several values, the one that the claim leaves; EFA only where an interface for it was launched."""
    other = msgspec.structs.replace(SIZED, name="m5.other", labels={}, capacity={})
    machine = machine_of(an_instance_of(efa_interfaces=interfaces), PLAN, Catalogue((other, SIZED)))
    lacking = () if interfaces else (EFA,)
    assert machine == Machine(
        instance_id="i-1",
        provider_id="aws:///us-east-1a/i-1",
        offering=Offering("m5.large", "us-east-1a", "on-demand", 100_000_000),
        image_id="ami-1",
        subnet_id="s-1",
        security_groups=("sg-1", "sg-2"),
        labels={
            labels.ARCH: "amd64",
            labels.OS: "linux",
            "size": "large",
            "sku": "b",
            labels.INSTANCE_TYPE: "m5.large",
            labels.ZONE: "us-east-1a",
            labels.CAPACITY_TYPE: "on-demand",
            labels.TENANCY: "default",
        },
        capacity={name: amount for name, amount in SIZED.capacity.items() if name not in lacking},
        allocatable={name: amount for name, amount in SIZED.allocatable().items() if name not in lacking},
    )


def test_of_a_type_that_is_not_in_the_catalogue_only_the_instance_is_known() -> None:
    machine = machine_of(an_instance_of(), PLAN, Catalogue((msgspec.structs.replace(SIZED, name="m5.other"),)))
    assert (machine.capacity, machine.allocatable, machine.offering.price) == ({}, {}, 0)
    assert set(machine.labels) == {labels.INSTANCE_TYPE, labels.ZONE, labels.CAPACITY_TYPE, labels.TENANCY}


def test_an_instance_in_a_reservation_has_its_price_and_says_so() -> None:
    """The price is that of its own zone, capacity type and reservation; of another one, none is known."""
    inside = {"reservation_id": "cr-1", "reservation_type": "default"}
    offering = Offering("m5.large", "us-east-1a", "reserved", 7, **inside)
    catalogue = Catalogue((msgspec.structs.replace(SIZED, offerings=(*SIZED.offerings, offering)),))
    machine = machine_of(an_instance_of(capacity_type="reserved", interruptible=True, **inside), PLAN, catalogue)
    assert machine.offering == msgspec.structs.replace(offering, interruptible=True)
    assert machine.labels[labels.RESERVATION_ID] == "cr-1"
    for elsewhere in ({"zone": "us-east-1b"}, {"reservation_id": "cr-2"}, {"capacity_type": "spot"}):
        elsewhere_instance = an_instance_of(**{"capacity_type": "reserved", **inside, **elsewhere})
        assert machine_of(elsewhere_instance, PLAN, catalogue).offering.price == 0


# Karpenter's lease says whether its controller runs, and where.


TICK = timedelta(microseconds=1)


class Leases:
    """The leases of a cluster, and how often they were listed; also the clock."""

    def __init__(self, *leases: dict[str, Any]) -> None:
        self.items = list(leases)
        self.asked: list[str] = []
        self.at = NOW

    def list(self, resource: object, *, fields: str = "", labels: str = "") -> SimpleNamespace:
        self.asked.append(fields)
        return SimpleNamespace(items=list(self.items))

    def now(self) -> datetime:
        return self.at


def lease(namespace: str | None = "kube-system", holder: str = "karpenter-1", renewed: object = NOW) -> dict[str, Any]:
    where = {} if namespace is None else {"namespace": namespace}
    time = renewed.isoformat() if isinstance(renewed, datetime) else renewed
    return {"metadata": {"name": LEASE, **where}, "spec": {"holderIdentity": holder, "renewTime": time}}


def presence(*leases: dict[str, Any]) -> tuple[KarpenterPresence, Leases]:
    fake = Leases(*leases)
    return KarpenterPresence(fake, fake), fake  # type: ignore[arg-type]  # what it uses of both


@pytest.mark.parametrize(
    ("leases", "namespace"),
    [
        ([], ""),
        ([lease()], "kube-system"),
        ([lease(None)], "default"),
        ([lease("b"), lease("a")], "a"),
        ([lease("a", holder=""), lease("b")], "b"),
        ([lease(renewed=NOW - HELD_FOR + TICK)], "kube-system"),
        ([lease(renewed=NOW - HELD_FOR)], ""),
        ([lease(renewed="2026-11-01T00:00:00")], "kube-system"),
        ([lease(renewed="soon")], "kube-system"),
        ([lease(renewed=None)], "kube-system"),
        ([{"metadata": {"name": LEASE}, "spec": None}], ""),
    ],
)
def test_a_held_lease_says_where_karpenter_runs(leases: list[dict[str, Any]], namespace: str) -> None:
    """In doubt it is there: two controllers that launch for one NodeClaim are worse than none."""
    karpenter, fake = presence(*leases)
    assert (karpenter.namespace(), karpenter.is_there()) == (namespace, bool(namespace))
    assert fake.asked == [f"metadata.name={LEASE}"]


def test_leases_are_listed_once_in_half_a_minute() -> None:
    karpenter, fake = presence(lease())
    assert karpenter.is_there()
    fake.items = []
    fake.at = NOW + ASKED_EVERY - TICK
    assert karpenter.is_there()
    fake.at = NOW + ASKED_EVERY
    assert not karpenter.is_there()
    fake.items = [lease(renewed=fake.at)]
    fake.at += ASKED_EVERY - TICK
    assert not karpenter.is_there()
    assert len(fake.asked) == 2


# Objects that say how pods start together.


def test_kinds_of_groups_are_listed_only_where_a_pod_names_one() -> None:
    cluster_reader, lab, called = reader()
    cluster_reader.complete()
    assert not set(of_lists(called)) & {"podgroups", "workloads", "jobsets", "leaderworkersets"}
    pod = a_pending_pod("j")
    pod["metadata"]["labels"] = {labels.JOB_SET: "train"}
    lab.kubernetes.put(pod)
    cluster_reader.complete()
    assert "jobsets" in of_lists(called)
    assert "podgroups" not in of_lists(called)


def test_a_kind_that_the_cluster_does_not_serve_leaves_its_groups_unknown() -> None:
    """Kubernetes 1.36 serves PodGroups under an older version, and a cluster without Volcano none of its."""
    cluster_reader, lab, _ = reader()
    tried = list[str]()

    def refuse(call: str) -> None:
        if "podgroups" in call:
            tried.append(call)
            raise DeniedError(call, "the cluster serves no podgroups")

    pod = a_pending_pod("g")
    pod["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    lab.kubernetes.put(pod)
    lab.kubernetes.before_call = refuse
    objects = cluster_reader.complete()
    assert resources.POD_GROUPS not in objects.by_kind
    assert len(tried) == 2


# Lists that are continued.


class Following:
    """A cluster that changes by chance, and lists of it that are kept from one reading to the next."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)  # noqa: S311 - a seed, not a secret
        self._clock = FakeClock(NOW)
        self._cluster = Cluster(VirtualClock(NOW), Recorder(VirtualClock(NOW)), Random(seed))  # noqa: S311
        self.api = self._cluster.api
        self.lists = KeptLists(self.api, self._clock)

    def change(self) -> None:
        """Create, change or remove some pods and nodes; now and then, let the server forget its events."""
        for _ in range(self._rng.randrange(6)):
            self.change_one()
        if self._rng.random() < 0.1:
            self.api.compact()
        self._clock.advance(seconds=self._rng.choice((0, 5, 60, 400)))

    def change_one(self) -> None:
        """Change one object: each is created, changed and removed many times under one name."""
        kind, namespace, name = self._rng.choice(FOLLOWED)
        label = self._rng.choice((str(self._rng.randrange(99)), 5))  # an object with a number there is read in part
        body: JsonObject = {"metadata": {"name": name, "labels": {"l": label}}, "spec": {}}
        with suppress(NotFoundError, ConflictError):
            match self._rng.randrange(4):
                case 0:
                    self.api.create(kind, body, namespace)
                case 1:
                    self.api.delete(kind, name, namespace=namespace, grace_seconds=0)
                case _:
                    self.api.patch(kind, name, {"metadata": body["metadata"]}, namespace=namespace)

    def differing(self) -> list[Resource]:
        """Return the kinds of which a kept list is not the server's, byte for byte."""
        encode = msgspec.json.encode
        kinds = (resources.NODES, resources.PODS)
        return [kind for kind in kinds if encode(self.lists.list(kind).items) != encode(self.api.list(kind).items)]


FOLLOWED = (
    *((resources.PODS, namespace, f"p{number}") for namespace in ("a", "a-b", "b") for number in range(3)),
    *((resources.NODES, "", f"n{number}") for number in range(3)),
)


def follow(seed: int) -> None:
    """Compare kept lists with the server's after each of some changes; all seeds to 10,000 take two minutes."""
    following = Following(seed)
    for step in range(12):
        following.change()
        assert following.differing() == [], f"seed {seed}, step {step}"


@pytest.mark.parametrize("seed", range(60))
def test_a_continued_list_is_the_servers_byte_for_byte(seed: int) -> None:
    """Otherwise, a sandbox that has run before would decide otherwise than a new one."""
    follow(seed)


class Losing:
    """An API server that loses events: those of the kinds in `lost`, out of created, changed and gone."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self.lists = 0
        self.error: PortError | None = None
        self.loses: Callable[[str, Any], bool] = lambda _name, _item: False

    def list(self, resource: Resource, **selectors: str) -> Listing:
        self.lists += 1
        return self._api.list(resource, **selectors)

    def changes(self, resource: Resource, since: str) -> ListChanges | None:
        if self.error is not None:
            raise self.error
        changes = self._api.changes(resource, since)
        if changes is None:
            return None
        kept = tuple((name, item) for name, item in changes.events if not self.loses(name, item))
        return msgspec.structs.replace(changes, events=kept)


@pytest.fixture
def losing() -> tuple[Losing, ClusterApi, FakeClock, KeptLists]:
    cluster = Cluster(VirtualClock(NOW), Recorder(VirtualClock(NOW)), Random(1))  # noqa: S311
    cluster.api.create(resources.NODES, {"metadata": {"name": "n1"}})
    server, clock = Losing(cluster.api), FakeClock(NOW)
    lists: Any = KeptLists(cast("Kubernetes", server), clock)
    lists.list(resources.NODES)
    return server, cluster.api, clock, lists


def labels_of(listing: Listing) -> list[str]:
    """The label `l` of each object."""
    return [item.metadata.labels.get("l", "") for item in listing.items]


def test_a_list_is_read_again_only_when_the_number_of_objects_is_another(
    losing: tuple[Losing, ClusterApi, FakeClock, KeptLists],
) -> None:
    """A node that is missing, or one that is long gone, would take pods or launch others."""
    server, api, _, lists = losing
    for _ in range(3):
        api.patch(resources.NODES, "n1", {"metadata": {"labels": {"l": "1"}}})
        assert labels_of(lists.list(resources.NODES)) == ["1"]
    assert server.lists == 1
    server.loses = lambda _name, _item: True
    api.create(resources.NODES, {"metadata": {"name": "n2"}})
    assert labels_of(lists.list(resources.NODES)) == ["1", ""]
    api.delete(resources.NODES, "n1")
    assert labels_of(lists.list(resources.NODES)) == [""]
    assert server.lists == 3


def test_a_change_that_was_missed_is_found_within_minutes_and_ends_the_trust(
    losing: tuple[Losing, ClusterApi, FakeClock, KeptLists], caplog: pytest.LogCaptureFixture
) -> None:
    """A restored API server can send no event for what it lost; nobody would see that a label is another."""
    server, api, clock, lists = losing
    server.loses = lambda _name, _item: True
    api.patch(resources.NODES, "n1", {"metadata": {"labels": {"l": "lost"}}})
    assert labels_of(lists.list(resources.NODES)) == [""]
    clock.advance(minutes=10)
    assert labels_of(lists.list(resources.NODES)) == ["lost"]
    assert server.lists == 2
    lists.list(resources.NODES)
    assert server.lists == 3
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_what_changes_during_the_comparison_is_no_difference(
    losing: tuple[Losing, ClusterApi, FakeClock, KeptLists],
) -> None:
    server, api, clock, lists = losing
    clock.advance(minutes=10)
    api.patch(resources.NODES, "n1", {"metadata": {"labels": {"l": "1"}}})
    lists.list(resources.NODES)
    lists.list(resources.NODES)
    assert server.lists == 2


def test_a_failed_watch_fails_the_run_and_the_next_one_lists(
    losing: tuple[Losing, ClusterApi, FakeClock, KeptLists],
) -> None:
    """A list in its place would come from the same busy server, and costs it far more."""
    server, _, _, lists = losing
    server.error = TransientError("kube:watch nodes", "429")
    with pytest.raises(TransientError):
        lists.list(resources.NODES)
    lists.list(resources.NODES)
    assert server.lists == 2


def test_without_the_permission_to_watch_all_is_listed(
    losing: tuple[Losing, ClusterApi, FakeClock, KeptLists],
) -> None:
    """Between an update and the new ClusterRoles, all works as before."""
    server, _, _, lists = losing
    server.error = DeniedError("kube:watch nodes", "403")
    for _ in range(2):
        assert labels_of(lists.list(resources.NODES)) == [""]
    assert server.lists == 3


def test_a_namespace_with_more_than_there_is_room_for_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list leaves parts of its objects out, in the server's order; a continued list would leave out others."""
    following = Following(1)
    server = Losing(following.api)
    lists: Any = KeptLists(cast("Kubernetes", server), FakeClock(NOW))
    lists.list(resources.PODS)
    monkeypatch.setattr(decoding, "HELD_MAX", 10)
    following.api.create(resources.PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}, "a")
    lists.list(resources.PODS)
    assert server.lists == 2
