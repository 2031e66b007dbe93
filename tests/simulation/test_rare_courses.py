"""Courses of small clusters in which something goes wrong, compared with `expected/rare-courses.txt`.

`python -m tests.expected tests.simulation.test_rare_courses` writes the texts. Beside the course, each text has what no event
of the record shows: counts of the functions' answers, messages, outcomes of the ledger, announcements, and rows of the table.
The checkers of the simulator judge each course as well.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from adapters.composition.functions import Adapters
from core import labels
from core.approval.proposal import ProposalVerdict
from core.manifests.wire import resources
from simulator.world import World, run
from tests.builders import a_class_manifest
from tests.expected import Expected
from tests.simulation.course import Acts, Course, watched
from tests.simulation.worlds import assert_lawful, deployment, node_pool, write

Scene = tuple[tuple[dict[str, Any], ...], list[dict[str, Any]], dict[str, Any], Acts]

_ON_DEMAND: Final = [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]
_EAGER: Final = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m"}
_SMALL: Final = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["test.small"]}
_CLASS: Final = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
_NEVER: Final = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}


def _pool(name: str = "default", *, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    template = spec.pop("template", {})
    manifest = node_pool(**spec)
    manifest["metadata"] = {"name": name, **({"annotations": annotations} if annotations else {})}
    manifest["spec"]["template"]["spec"] |= template
    return manifest


def _scaled(at: str, replicas: int, name: str = "web") -> dict[str, Any]:
    return {"at": at, "scale": {"kind": "Deployment", "namespace": "default", "name": name, "replicas": replicas}}


def _fault(at: str, call: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"at": at, "fault": {"call": call, "kind": kind, **({"count": 1} | more if "for" not in more else more)}}


def _budget(name: str, app: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def _annotated(manifest: dict[str, Any], key: str, value: str = "true") -> dict[str, Any]:
    manifest["spec"]["template"]["metadata"]["annotations"] = {key: value}
    return manifest


def _by_hand(name: str, **changes: Any) -> dict[str, Any]:
    """A NodeClaim as somebody writes it; `labels` go to its metadata."""
    metadata = {"labels": changes.pop("labels")} if "labels" in changes else {}
    spec = {"nodeClassRef": _CLASS, "requirements": _ON_DEMAND, **changes}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": name, **metadata}, "spec": spec}


def _buffer(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def _verdict(number: int, *, approves: bool) -> Callable[[World], None]:
    """A person's verdict on the proposal of this number."""

    def say(world: World) -> None:
        store = Adapters(world._settings(), world.account.session, world.clock).proposals
        proposal = sorted(store.all(), key=lambda record: (record.proposed_at, record.id))[number]
        verdict = ProposalVerdict(is_approved=approves, by="ada", at=world.clock.now())
        store.answer(proposal, verdict)

    return say


def _ended(number: int) -> Callable[[World], None]:
    """Somebody ends an instance; the scenario drops what EC2 says of it."""

    def end(world: World) -> None:
        alive = [instance for instance in world.account.instances.all() if instance.is_alive]
        world.account.instances.terminate([alive[number].id], by="user")

    return end


def _orphaned(number: int) -> Callable[[World], None]:
    """The table is lost, and with it what the tags of some instances say of their NodePool."""

    def orphan(world: World) -> None:
        for orphaned in [instance for instance in world.account.instances.all() if instance.is_alive][:number]:
            world.account.instances.tag(orphaned.id, {labels.NODEPOOL: "gone"})
        world.account.table.lose(None)

    return orphan


def _with_volume(manifest: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """The Deployment with a volume, and its PersistentVolumeClaim."""
    name = manifest["metadata"]["name"]
    manifest["spec"]["template"]["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "ebs",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    kind = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "ebs"},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    return kind, claim, manifest


def _tiered(manifest: dict[str, Any]) -> dict[str, Any]:
    manifest["spec"]["template"]["metadata"]["labels"]["tier"] = "web"
    return manifest


def _changed(manifest: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    manifest["spec"] |= spec
    return manifest


def _zonal(manifest: dict[str, Any]) -> dict[str, Any]:
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {labels.ZONE: "zone-b"}
    return manifest


def _spread(manifest: dict[str, Any]) -> dict[str, Any]:
    selector = manifest["spec"]["selector"]
    rules = [
        {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
        for key in (labels.ZONE, labels.HOSTNAME)
    ]
    manifest["spec"]["template"]["spec"]["topologySpreadConstraints"] = rules
    return manifest


def _apart(manifest: dict[str, Any]) -> dict[str, Any]:
    term = {"topologyKey": labels.HOSTNAME, "labelSelector": manifest["spec"]["selector"]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    manifest["spec"]["template"]["spec"]["affinity"] = {"podAntiAffinity": required}
    return manifest


def _together(manifest: dict[str, Any], app: str) -> dict[str, Any]:
    term = {"topologyKey": labels.ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    manifest["spec"]["template"]["spec"]["affinity"] = {"podAffinity": required}
    return manifest


def _late(manifest: dict[str, Any]) -> dict[str, Any]:
    """With a preference and a port, which each node has once."""
    spec = manifest["spec"]["template"]["spec"]
    spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    preference = {"matchExpressions": [{"key": labels.ZONE, "operator": "In", "values": ["zone-b"]}]}
    preferred = [{"weight": 10, "preference": preference}]
    spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return manifest


def _forgotten(number: int) -> Callable[[World], None]:
    """Somebody deletes a claim's row and its NodeClaim while the Node stays, which is deleted then."""

    def forget(world: World) -> None:
        world.account.table.lose(None)
        name = sorted(node["metadata"]["name"] for node in world.cluster.nodes())[number]
        world.cluster.delete("Node", "", name)

    return forget


def _patched(number: int, **body: Any) -> Callable[[World], None]:
    """Somebody changes a Node."""

    def patch(world: World) -> None:
        name = sorted(node["metadata"]["name"] for node in world.cluster.nodes())[number]
        world.cluster._store.patch(resources.NODES, name, body)

    return patch


def _spoiled(number: int) -> Callable[[World], None]:
    """Somebody edits the table, and a claim's row can no longer be read."""

    def spoil(world: World) -> None:
        items = world.account.table._items
        rows = [(key, row) for key, row in items.all() if key.partition.partition("#")[2].startswith("claims#")]
        key, row = rows[number]
        items.write(world.clock.now(), key, {**row, "body": {"S": "{}"}})

    return spoil


def _sent(queue: str, body: str) -> Callable[[World], None]:
    def send(world: World) -> None:
        queue_name = next(name for name in world.account.queues._queues if queue in name)
        url = world.account.queues._prefix + queue_name
        entries = [{"Id": "0", "MessageBody": body}]
        world.account.session.client("sqs").send_message_batch(QueueUrl=url, Entries=entries)

    return send


SCENES: Final[dict[str, Scene]] = {
    "commands wait for approval: one is approved, one rejected, others lapse": (
        (_pool(), deployment(20)),
        [_scaled("10m", 1), _fault("10m", "sns:Publish", "error", count=3), _scaled("26m", 14)],
        {"duration": "40m", "settings": {"mode": "approve"}},
        {"16m": _verdict(0, approves=True), "17m": _verdict(1, approves=False)},
    ),
    "few nodes go without being asked for, expensive ones and those of a namespace wait": (
        (_pool(), deployment(8), deployment(3, "cheap", "100m")),
        [_scaled("6m", 2), _scaled("14m", 0, "cheap")],
        {
            "duration": "24m",
            "settings": {"mode": "approve", "approveAboveNodes": 1, "approveAboveDollars": "0.05"},
        },
        {},
    ),
    "pods cannot leave a node: budgets, webhooks, throttles, deadlines": (
        (
            _pool(weight=10, template={"terminationGracePeriod": "4m", "expireAfter": "12m"}, disruption=_NEVER),
            deployment(2, "aaa", "500m"),
            _budget("one", "aaa", maxUnavailable=1),
            _budget("two", "aaa", maxUnavailable=1),
            deployment(1, "single", "300m"),
            _budget("three", "single", minAvailable=1),
            deployment(4, "zzz", "500m"),
        ),
        [
            _fault("12m", "kube:create pods/eviction", "throttle", count=2),
            _fault("12m", "kube:create pods/eviction", "lostReply"),
            _fault("13m", "kube:create pods/eviction", "denied", code="403"),
            _fault("16m", "kube:delete pods", "error"),
        ],
        {"duration": "31m"},
        {},
    ),
    "a NodePool goes, a single replica is started elsewhere first, and another drain has no end": (
        (
            _pool(weight=10),
            _pool("other"),
            _annotated(deployment(1, "moved", "500m"), labels.SURGE),
            _budget("moved", "moved", minAvailable=1),
            deployment(1, "stays", "500m"),
            _budget("stays", "stays", minAvailable=1),
        ),
        [{"at": "6m", "delete": [{"kind": "NodePool", "name": "default"}]}],
        {"duration": "75m", "settings": {"surgeRestarts": True}},
        {},
    ),
    "NodeClaims made by hand": (
        (
            _pool(limits={"cpu": "8"}, disruption=_NEVER),
            deployment(1, cpu="3"),
            _by_hand("mine"),
            _by_hand("of-pool", labels={labels.NODEPOOL: "default"}),
            _by_hand("too-much", labels={labels.NODEPOOL: "default"}, resources={"requests": {"cpu": "9"}}),
            _by_hand("nowhere", requirements=[{**_ON_DEMAND[0], "key": labels.ZONE, "values": ["zone-q"]}]),
            _by_hand("no-class", nodeClassRef={**_CLASS, "name": "gone"}),
        ),
        [
            {"at": "6m", "delete": [{"kind": "NodeClaim", "name": "mine"}]},
            {"at": "7m", "brake": {"mode": "stop"}},
            {"at": "8m", "apply": [_by_hand("later")]},
            {"at": "11m", "brake": {"mode": "run"}},
            {"at": "11m", "delete": [{"kind": "NodeClaim", "name": "no-class"}]},
            {"at": "14m", "capacity": {"available": 0}},
            {"at": "14m", "apply": [_by_hand("refused")]},
        ],
        {"duration": "20m"},
        {},
    ),
    "buffers keep room": (
        (
            _pool(limits={"cpu": "12"}),
            deployment(1),
            _buffer("room", scalableRef={"apiGroup": "apps", "kind": "Deployment", "name": "web"}, replicas=3),
            _buffer("none", podTemplateRef={"name": "gone"}, replicas=1),
            _buffer("much", scalableRef={"apiGroup": "apps", "kind": "Deployment", "name": "web"}, replicas=20),
        ),
        [
            _scaled("6m", 3),
            {"at": "10m", "delete": [{"kind": "CapacityBuffer", "namespace": "default", "name": "much"}]},
        ],
        {"duration": "20m", "featureGates": {"CapacityBuffer": True}},
        {},
    ),
    "instances vanish without a word, and one after the other": (
        (_pool(disruption=_NEVER), deployment(4, cpu="12")),
        [{"at": "6m", "events": {"kind": "drop", "count": 4}}, {"at": "20m", "events": {"kind": "drop", "count": 9}}],
        {"duration": "44m"},
        {"6.01m": _ended(0), "20.01m": _ended(0), "20.02m": _ended(0)},
    ),
    "rows are lost, and a NodePool with them": (
        (_pool(disruption=_NEVER), _pool("second", weight=5, disruption=_NEVER), deployment(3, cpu="12")),
        [
            {"at": "8.1m", "delete": [{"kind": "NodePool", "name": "second"}]},
            _scaled("16m", 4),
            {"at": "16m", "interrupt": {"fraction": 0.5}},
        ],
        {"duration": "40m"},
        {"8m": lambda world: world.account.table.lose(None), "16m": lambda world: world.account.table.lose(None)},
    ),
    "rows that cannot be read, messages that nobody understands": (
        (_pool(disruption=_NEVER), deployment(3, cpu="12")),
        [{"at": "9m", "interrupt": {"fraction": 1.0}}],
        {"duration": "20m"},
        {
            "5m": _spoiled(0),
            "6m": _sent("work", "nonsense"),
            "6.5m": _sent("work", '{"claim": "gone", "until": "2026-11-20T01:00:00Z"}'),
            "7m": _sent("work", '{"command": "gone"}'),
            "7.5m": _sent("look", "{}"),
        },
    ),
    "marks on nodes that nobody put there": (
        (_pool(disruption=_NEVER), deployment(2, cpu="12")),
        [],
        {"duration": "20m"},
        {
            "5m": _patched(
                0,
                spec={"taints": [{"key": labels.DISRUPTED_TAINT, "effect": "NoSchedule"}]},
                metadata={"labels": {labels.EXCLUDE_FROM_BALANCERS: "fleetwright"}},
            ),
            "6m": _patched(1, metadata={"labels": {labels.INITIALIZED: None, labels.REGISTERED: None}}),
            "7m": _patched(1, metadata={"finalizers": [], "annotations": {labels.CLAIM: "other"}}),
        },
    ),
    "replacements do not come, and a rollout is stopped": (
        (
            _pool(
                disruption={
                    "consolidationPolicy": "WhenEmptyOrUnderutilized",
                    "consolidateAfter": "1m",
                    "budgets": [{"nodes": "1"}],
                }
            ),
            deployment(2, cpu="3"),
        ),
        [
            {"at": "4.5m", "boot": {"fail": 8}},
            {"at": "5m", "ami": {"alias": "al2023", "id": "ami-0new"}},
        ],
        {"duration": "70m"},
        {},
    ),
    "commands that are overtaken: pods come, a brake is pulled, nodes go": (
        (
            _pool(template={"requirements": [*_ON_DEMAND, _SMALL]}),
            deployment(3),
        ),
        [
            {"at": "3.2m", "apply": [_pool()]},
            {"at": "4.1m", "brake": {"mode": "pause-disruption"}},
            {"at": "7m", "brake": {"mode": "run"}},
            _scaled("8.05m", 5),
            {"at": "15.9m", "deleteNodes": {"fraction": 0.6}},
            _fault("15.9m", "kube:patch nodes", "conflict", count=3),
            {"at": "20m", "brake": {"mode": "stop"}},
            _scaled("20m", 9),
            {"at": "20.5m", "interrupt": {"fraction": 1.0}},
            {"at": "22m", "brake": {"mode": "run"}},
        ],
        {"duration": "28m"},
        {},
    ),
    "EC2 answers badly: throttled, refused in part, unknown, for good": (
        (_pool(), deployment(30, cpu="3500m")),
        [
            _fault("0s", "ec2:CreateFleet", "throttle", count=6),
            _fault("0s", "ec2:CreateFleet", "lostReply", count=2),
            _fault(
                "1m", "ec2:CreateFleet", "denied", code="UnauthorizedOperation", **{"as": "fleetError"}, zone="zone-a"
            ),
            {"at": "5m", "capacity": {"instanceType": "test.medium", "available": 3}},
            _scaled("5m", 60),
            _fault("5m", "ec2:CreateFleet", "conflict", count=2),
            _fault("7m", "ec2:CreateFleet", "denied", code="InvalidParameterValue", count=4),
            _scaled("7m", 70),
        ],
        {"duration": "22m"},
        {},
    ),
    "an EC2NodeClass that is wrong, mended, and gone": (
        (a_class_manifest(role=""), _pool(), deployment(2)),
        [
            {"at": "3m", "apply": [a_class_manifest()]},
            {
                "at": "5m",
                "apply": [a_class_manifest(subnetSelectorTerms=[{"tags": {"none": "such"}}]), deployment(2, "b")],
            },
            {"at": "8m", "apply": [a_class_manifest(amiSelectorTerms=[{"id": "ami-gone"}])]},
            {"at": "10m", "apply": [a_class_manifest()]},
        ],
        {"duration": "15m"},
        {},
    ),
    "a capacity block ends": (
        (
            a_class_manifest(capacityReservationSelectorTerms=[{"id": "cr-block"}]),
            _pool(
                template={"requirements": [{**_ON_DEMAND[0], "values": ["reserved", "on-demand"]}]},
                disruption={**_NEVER, "budgets": [{"nodes": "0"}]},
            ),
            deployment(2, cpu="12"),
        ),
        [],
        {
            "duration": "34m",
            "capacityReservations": [
                {
                    "id": "cr-block",
                    "instanceType": "test.large",
                    "zone": "zone-a",
                    "total": 2,
                    "type": "capacity-block",
                    "ends": "60m",
                }
            ],
        },
        {},
    ),
    "nodes that are never ready for pods": (
        (
            _pool(
                template={"startupTaints": [{"key": "cni", "effect": "NoSchedule"}]},
                disruption=_NEVER,
            ),
            deployment(2),
        ),
        [],
        {"duration": "40m"},
        {},
    ),
    "services that do not answer": (
        (_pool(), deployment(4), deployment(2, "api", "3")),
        [
            _fault("2m", "dynamodb:*", "error", **{"for": "1m"}),
            _scaled("2m", 6),
            _fault("5m", "kube:*", "error", **{"for": "1m"}),
            _fault("8m", "ec2:Describe*", "throttle", **{"for": "2m"}),
            _scaled("8m", 2),
            _fault("12m", "sqs:*", "error", **{"for": "1m"}),
            _scaled("12m", 5),
            _fault("15m", "s3:*", "error", **{"for": "2m"}),
            _scaled("15m", 1),
            _fault("18m", "ssm:*", "error", **{"for": "1m"}),
        ],
        {"duration": "28m"},
        {},
    ),
    "pods are left to the scheduler": (
        (_pool(), deployment(5), deployment(1, "solo", "200m")),
        [_scaled("6m", 9), _scaled("9m", 1)],
        {"duration": "16m", "settings": {"bindPods": False, "steerScaleIn": True}},
        {},
    ),
    "minValues that cannot be had, and a NodePool that is observed no more": (
        (
            _pool(
                template={
                    "requirements": [
                        {"key": labels.INSTANCE_TYPE, "operator": "Exists", "minValues": 5},
                        *_ON_DEMAND,
                    ]
                }
            ),
            _pool("watched", weight=10, annotations={labels.MODE: labels.OBSERVE}),
            deployment(3),
        ),
        [{"at": "6m", "apply": [_pool("watched", weight=10)]}, _scaled("7m", 6)],
        {"duration": "14m", "settings": {"minValuesPolicy": "BestEffort"}},
        {},
    ),
    "expiry by force, and limits that shrink": (
        (
            _pool(
                annotations={labels.EXPIRY: "Forceful"},
                template={"expireAfter": "12m", "terminationGracePeriod": "2m"},
                limits={"cpu": "60"},
                disruption={**_NEVER, "budgets": [{"nodes": "1"}]},
            ),
            _annotated(deployment(3, cpu="3"), labels.DO_NOT_DISRUPT),
        ),
        [
            {"at": "19m", "apply": [_pool(limits={"cpu": "4"})]},
            _scaled("19m", 9),
        ],
        {"duration": "27m"},
        {},
    ),
    "unhealthy nodes whose NodePool lets none go, then one": (
        (
            _pool(disruption={**_NEVER, "budgets": [{"nodes": "0"}]}, template={"requirements": _ON_DEMAND}),
            deployment(3, cpu="3"),
        ),
        [
            {"at": "3m", "interrupt": {"fraction": 0.7, "kind": "statusCheck"}},
            {
                "at": "40m",
                "apply": [
                    _pool(disruption={**_NEVER, "budgets": [{"nodes": "1"}]}, template={"requirements": _ON_DEMAND})
                ],
            },
        ],
        {"duration": "60m", "featureGates": {"NodeRepair": True}},
        {},
    ),
    "rebalance recommendations drain, scheduled changes are kept in mind": (
        (
            _pool(disruption=_NEVER),
            _pool("steady", weight=9, template={"requirements": _ON_DEMAND}),
            deployment(4, cpu="3"),
        ),
        [
            {"at": "4m", "interrupt": {"fraction": 0.5, "kind": "scheduledChange"}},
            {"at": "8m", "apply": [_pool("steady", limits={"cpu": "4"}, template={"requirements": _ON_DEMAND})]},
            _scaled("8m", 6),
            {"at": "12m", "interrupt": {"fraction": 1.0, "kind": "rebalance"}},
            {"at": "13m", "interrupt": {"fraction": 1.0}},
        ],
        {"duration": "24m", "settings": {"rebalancePolicy": "drain"}},
        {},
    ),
    "instances of nobody: one, and then many": (
        (_pool(disruption=_NEVER), deployment(3, cpu="12")),
        [],
        {"duration": "40m"},
        {
            "5m": _orphaned(1),
            "20m": _orphaned(3),
        },
    ),
    "calls that take long": (
        (_pool(), deployment(6, cpu="3")),
        [
            _fault("0s", "ec2:CreateFleet", "delay", seconds=400),
            _fault("2m", "dynamodb:TransactWriteItems", "delay", seconds=50, count=3),
            _fault("6m", "kube:patch nodes", "delay", seconds=55, count=2),
            _scaled("6m", 9),
            _scaled("10m", 1),
            _fault("10m", "kube:create pods/eviction", "delay", seconds=25, count=4),
        ],
        {"duration": "26m"},
        {},
    ),
    "pods with volumes": (
        (
            _pool(disruption=_NEVER, template={"expireAfter": "12m", "terminationGracePeriod": "4m"}),
            *_with_volume(deployment(1, "data", "500m")),
            deployment(2),
        ),
        [],
        {"duration": "22m"},
        {},
    ),
    "pods come between a decision and its check": (
        (_pool(), deployment(12, cpu="900m")),
        [_scaled("5m", 2), _scaled("6.3m", 12), _scaled("10m", 2)],
        {"duration": "16m"},
        {},
    ),
    "a drain is cancelled that a budget blocks": (
        (
            _pool(template={"expireAfter": "12m"}),
            _tiered(deployment(2, "aaa", "500m")),
            _tiered(deployment(1, "bbb", "99")),
            {
                **_budget("most", "", minAvailable=2),
                "spec": {"selector": {"matchLabels": {"tier": "web"}}, "minAvailable": 2},
            },
            deployment(1, "zzz", "100m"),
        ),
        [],
        {"duration": "78m"},
        {},
    ),
    "launches whose fate is unknown": (
        (_pool(), deployment(4, cpu="12"), deployment(2, "gone", "14")),
        [
            _fault("0s", "ec2:CreateFleet", "error", **{"for": "70s"}),
            _scaled("50s", 1, "gone"),
            _scaled("5m", 7),
            _fault("5m", "ec2:CreateFleet", "crashAfter"),
            _scaled("10m", 9),
            _fault("10m", "ec2:CreateFleet", "crashBefore"),
            _scaled("14m", 12),
            _fault("14m", "ec2:CreateFleet", "delay", seconds=100),
            _fault("14m", "dynamodb:TransactWriteItems", "crashBefore", nth=3),
        ],
        {"duration": "24m"},
        {},
    ),
    "launches of which EC2 makes a part, and instances that end at once": (
        (
            _pool(template={"requirements": [*_ON_DEMAND, {**_SMALL, "values": ["test.medium"]}]}),
            deployment(8, cpu="3"),
            _zonal(deployment(2, "bound", "3")),
        ),
        [
            {"at": "0s", "capacity": {"instanceType": "test.medium", "available": 3}},
            {"at": "0s", "boot": {"endReason": "Server.InsufficientInstanceCapacity", "count": 2}},
            {"at": "5m", "capacity": {"available": None}},
            {"at": "5m", "boot": {"endReason": "Client.VolumeLimitExceeded", "count": 2}},
            {"at": "9m", "boot": {"endReason": "Client.InvalidSnapshot.NotFound", "count": 1}},
            _fault("9m", "dynamodb:PutItem", "conflict", count=4),
            _scaled("9m", 12),
        ],
        {"duration": "26m"},
        {},
    ),
    "pods that are bound under conditions": (
        (
            _pool(disruption=_NEVER),
            _spread(deployment(4, "spread", "500m")),
            _apart(deployment(3, "apart", "500m")),
            _together(deployment(3, "together", "500m"), "spread"),
            _zonal(deployment(2, "bound", "500m")),
            _late(deployment(2, "late", "500m")),
        ),
        [
            _fault("0s", "kube:create pods/binding", "conflict", count=2),
            _fault("0s", "kube:create pods/binding", "denied", code="403", count=2, nth=5),
            _scaled("4m", 6, "spread"),
            _fault("4m", "kube:create pods/binding", "error", count=3),
            _scaled("4m", 5, "apart"),
            _scaled("4m", 6, "together"),
        ],
        {"duration": "12m"},
        {},
    ),
    "pods that are nominated": (
        (_pool(), deployment(5, cpu="3")),
        [
            _fault("0s", "kube:patch pods/status", "conflict", count=1),
            _fault("0s", "kube:patch pods/status", "error", count=5),
            _scaled("6m", 8),
        ],
        {"duration": "10m", "settings": {"bindPods": False}},
        {},
    ),
    "single replicas that may not be restarted": (
        (
            _pool(weight=10),
            _pool("other"),
            *(
                obj
                for name, change in (
                    ("paused", {"paused": True}),
                    ("recreated", {"strategy": {"type": "Recreate"}}),
                    ("unsurged", {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}),
                    ("several", {"replicas": 2}),
                )
                for obj in (
                    _changed(_annotated(deployment(1, name, "300m"), labels.SURGE), change),
                    _budget(name, name, minAvailable=1 if name != "several" else 2),
                )
            ),
        ),
        [
            {"at": "6m", "delete": [{"kind": "NodePool", "name": "default"}]},
            _fault("6m", "kube:patch deployments", "denied", code="403"),
        ],
        {"duration": "16m", "settings": {"surgeRestarts": True}},
        {},
    ),
    "scale-in is steered to the nodes that go next": (
        (_pool(disruption={**_EAGER, "budgets": [{"nodes": "1"}]}), deployment(20, cpu="900m")),
        [_scaled("5m", 9), _fault("6m", "kube:patch pods", "conflict", count=1), _scaled("9m", 6)],
        {"duration": "16m", "settings": {"steerScaleIn": True}},
        {},
    ),
    "nodes are deleted whose instances are gone, and old lists are read": (
        (_pool(disruption=_NEVER), deployment(3, cpu="12")),
        [
            {"at": "4m", "events": {"kind": "drop", "count": 9}},
            _fault("6m", "kube:list nodes", "stale", seconds=120, count=2),
            _fault("6m", "ec2:DescribeInstances", "stale", seconds=120, count=2),
            _scaled("6m", 5),
        ],
        {"duration": "34m"},
        {"4.01m": _ended(0), "4.02m": _forgotten(0)},
    ),
}


_USUAL: Final = re.compile(
    r"^(metadata\.(labels|finalizers|name)|spec\.(requirements|nodeClassRef|resources|expireAfter)"
    r"|status\.(allocatable|capacity|conditions|subnets|securityGroups|instanceProfile|resources))"
)
"""What the usual courses show of every object."""


def text(name: str) -> str:
    """The course of a scene, and what its functions said besides."""
    objects, steps, spec, acts = SCENES[name]
    with tempfile.TemporaryDirectory() as folder, watched(acts) as heard:
        path = write(Path(folder), *objects, steps=steps, **spec)
        result = run(path, ledger=Path(folder) / "ledger")
    assert_lawful(result)
    return "\n".join(Course(result, without=_USUAL).lines(heard.lines()))


EXPECTED: Final = Expected(
    Path(__file__).parent / "expected" / "rare-courses.txt", {name: partial(text, name) for name in SCENES}
)


@pytest.mark.ci
@pytest.mark.parametrize("name", sorted(SCENES))
def test_a_rare_course_is_the_expected_one_and_breaks_no_rule(name: str) -> None:
    """If this failed, what a function does when something goes wrong would have changed, and nobody would have looked."""
    assert EXPECTED.cases[name]() == EXPECTED.text(name)
