"""Courses of small simulated clusters, compared with `expected/courses.txt`: what functions decide, ask of EC2, and write.

`python -m tests.expected tests.simulation.test_expected_courses` writes the texts. Each scenario is about another part of
the controllers; the checkers of the simulator judge each course as well, so that a text shows none that breaks a rule.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from core import labels
from tests.builders import a_class_manifest
from tests.expected import Expected
from tests.simulation.course import Course
from tests.simulation.worlds import assert_lawful, deployment, node_pool, play

Objects = tuple[dict[str, Any], ...]
Steps = list[dict[str, Any]]


def _pool(name: str = "default", *, template: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    manifest = node_pool(**spec)
    manifest["metadata"]["name"] = name
    manifest["spec"]["template"]["spec"] |= template or {}
    return manifest


def _observed(name: str, **spec: Any) -> dict[str, Any]:
    manifest = _pool(name, **spec)
    manifest["metadata"]["annotations"] = {labels.MODE: labels.OBSERVE}
    return manifest


def _budget(app: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def _spread(replicas: int, name: str = "web", key: str = labels.HOSTNAME) -> dict[str, Any]:
    manifest = deployment(replicas, name)
    rule = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": name}},
    }
    manifest["spec"]["template"]["spec"]["topologySpreadConstraints"] = [rule]
    return manifest


def _scaled(at: str, replicas: int, name: str = "web") -> dict[str, Any]:
    return {"at": at, "scale": {"kind": "Deployment", "namespace": "default", "name": name, "replicas": replicas}}


def _kept(name: str, cpu: str) -> dict[str, Any]:
    manifest = deployment(1, name, cpu)
    manifest["spec"]["template"]["metadata"]["annotations"] = {labels.DO_NOT_DISRUPT: "true"}
    return manifest


_SLOW: Final = {
    "consolidationPolicy": "WhenEmptyOrUnderutilized",
    "consolidateAfter": "1m",
    "budgets": [{"nodes": "1"}],
}
_NEVER: Final = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}
_ON_DEMAND: Final = [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}]

SCENARIOS: Final[dict[str, tuple[Objects, Steps, dict[str, Any]]]] = {
    "pods come, go, and a spot node is interrupted": (
        (_pool(), deployment(5), deployment(3, "api", "700m")),
        [_scaled("5m", 1), {"at": "9m", "interrupt": {"fraction": 1.0}}],
        {"duration": "14m"},
    ),
    "an image and then a template change, one node at a time": (
        (_pool(disruption=_SLOW), _spread(3), _budget("web", maxUnavailable=1)),
        [
            {"at": "5m", "ami": {"alias": "al2023", "id": "ami-0new"}},
            {"at": "14m", "apply": [_pool(disruption=_SLOW, template={"expireAfter": "48h"})]},
        ],
        {"duration": "26m"},
    ),
    "EC2 has no capacity, and first instances do not join": (
        (_pool(template={"requirements": _ON_DEMAND}), deployment(4, cpu="3")),
        [
            {"at": "0s", "capacity": {"instanceType": "test.large", "available": 0}},
            {"at": "0s", "boot": {"endReason": "Client.InternalError", "count": 1}},
            {"at": "8m", "capacity": {"available": 0}},
            {"at": "8m", "apply": [deployment(2, "late", "1500m")]},
            {"at": "16m", "capacity": {"available": None}},
        ],
        {"duration": "24m"},
    ),
    "nodes expire, and pods that must stay hold them": (
        (
            _pool(disruption=_NEVER, template={"expireAfter": "12m", "terminationGracePeriod": "3m"}),
            deployment(2, cpu="1500m"),
            _kept("kept", "500m"),
        ),
        [],
        {"duration": "26m"},
    ),
    "a static NodePool is made larger, smaller and removed": (
        (_pool("fixed", replicas=2), _pool(), deployment(1)),
        [
            {"at": "5m", "apply": [_pool("fixed", replicas=3)]},
            {"at": "9m", "apply": [_pool("fixed", replicas=1)]},
            {"at": "14m", "delete": [{"kind": "NodePool", "name": "fixed"}]},
        ],
        {"duration": "19m", "featureGates": {"StaticCapacity": True}},
    ),
    "nodes, claims and an EC2NodeClass are deleted, and statuses checked": (
        (_pool(disruption=_NEVER), _spread(4)),
        [
            {"at": "4m", "deleteNodes": {"fraction": 0.3}},
            {"at": "8m", "deleteNodeClaims": {"fraction": 0.3}},
            {"at": "12m", "interrupt": {"fraction": 0.4, "kind": "statusCheck"}},
            {"at": "16m", "interrupt": {"fraction": 0.4, "kind": "scheduledChange"}},
            {"at": "17m", "interrupt": {"fraction": 0.3, "kind": "rebalance"}},
            {"at": "19m", "delete": [{"kind": "EC2NodeClass", "name": "default"}]},
        ],
        {"duration": "24m", "featureGates": {"NodeRepair": True}},
    ),
    "brakes: the kill switch, the alarm, a zone that traffic leaves": (
        (_pool(), deployment(6)),
        [
            {"at": "3m", "brake": {"mode": "pause-disruption"}},
            _scaled("4m", 2),
            {"at": "7m", "brake": {"mode": "run"}},
            {"at": "10m", "brake": {"alarm": "ALARM"}},
            {"at": "11m", "brake": {"shiftedZones": ["zone-a"]}},
            _scaled("11m", 9),
            {"at": "15m", "brake": {"alarm": "OK"}},
            {"at": "16m", "brake": {"shiftedZones": []}},
        ],
        {"duration": "20m"},
    ),
    "calls fail: refused, unanswered, crashed, contradicted": (
        (_pool(), deployment(5)),
        [
            {"at": "0s", "fault": {"call": "ec2:CreateFleet", "kind": "lostReply", "count": 1}},
            {"at": "0s", "fault": {"call": "dynamodb:TransactWriteItems", "kind": "conflict", "count": 2}},
            {"at": "2m", "fault": {"call": "ec2:CreateTags", "kind": "throttle", "count": 2}},
            {
                "at": "3m",
                "fault": {"call": "ec2:CreateFleet", "kind": "denied", "code": "UnauthorizedOperation", "count": 1},
            },
            _scaled("3m", 12),
            {"at": "9m", "fault": {"call": "ec2:TerminateInstances", "kind": "crashAfter", "count": 1}},
            {"at": "9m", "fault": {"call": "kube:create pods/eviction", "kind": "error", "count": 2}},
            _scaled("9m", 1),
        ],
        {"duration": "18m"},
    ),
    "the table is lost, and messages come twice or never": (
        (_pool(disruption=_NEVER), deployment(3)),
        [
            {"at": "0s", "events": {"kind": "duplicate", "count": 6}},
            {"at": "4m", "table": {"lose": "all"}},
            {"at": "8m", "events": {"kind": "drop", "count": 3}},
            _scaled("8m", 6),
        ],
        {"duration": "20m"},
    ),
    "reserved places are used first, and a reservation ends": (
        (
            a_class_manifest(capacityReservationSelectorTerms=[{"id": "cr-1"}]),
            _pool(template={"requirements": [{**_ON_DEMAND[0], "values": ["reserved", "on-demand"]}]}),
            deployment(3, cpu="12"),
        ),
        [{"at": "8m", "capacityReservation": {"id": "cr-1", "cancel": True}}],
        {
            "duration": "14m",
            "capacityReservations": [{"id": "cr-1", "instanceType": "test.large", "zone": "zone-a", "total": 2}],
        },
    ),
    "an account at its quota, and a NodePool at its limits": (
        (_pool(limits={"cpu": "20"}, template={"requirements": _ON_DEMAND}), deployment(26, cpu="900m")),
        [{"at": "6m", "apply": [_pool(limits={"cpu": "64"}, template={"requirements": _ON_DEMAND})]}],
        {"duration": "14m", "vcpuQuotas": {"L-1216C47A": 24}},
    ),
    "an invalid NodePool, one without a class, and pods that none takes": (
        (
            _pool("broken", limits={"cpu": "many"}),
            _pool(
                "orphan",
                template={"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gone"}},
            ),
            _pool("tainted", template={"taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}]}),
            deployment(2),
        ),
        [{"at": "5m", "apply": [_pool("tainted")]}],
        {"duration": "9m"},
    ),
    "a subnet without addresses, prices that fall, and a NodePool that is only observed": (
        (_pool(), _observed("watched", weight=10), deployment(6)),
        [
            {"at": "0s", "subnet": {"zone": "zone-a", "freeAddresses": 3}},
            {"at": "5m", "price": {"capacityType": "on-demand", "factor": 0.1}},
            _scaled("6m", 10),
        ],
        {"duration": "14m"},
    ),
    "shadow mode beside nothing": (
        (_pool(), deployment(3)),
        [_scaled("4m", 6)],
        {"duration": "9m", "settings": {"mode": "shadow"}},
    ),
}


def text(name: str) -> str:
    """The course of a scenario."""
    objects, steps, spec = SCENARIOS[name]
    with tempfile.TemporaryDirectory() as folder:
        result = play(Path(folder), *objects, steps=steps, **spec)
    assert_lawful(result)
    return "\n".join(Course(result).lines())


EXPECTED: Final = Expected(
    Path(__file__).parent / "expected" / "courses.txt", {name: partial(text, name) for name in SCENARIOS}
)


@pytest.mark.ci
@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_a_course_is_the_expected_one_and_breaks_no_rule(name: str) -> None:
    """If this failed, a change would alter what a function does, writes or says, and nobody would have looked at it."""
    assert EXPECTED.cases[name]() == EXPECTED.text(name)
