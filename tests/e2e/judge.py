"""Compares the node to which kube-scheduler bound each pod with the node that the functions planned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from adapters.ports import JsonObject
from cli.manifests.inventory import Document, take_inventory
from core.manifests.assemble import assemble
from core.model.catalogue import Catalogue, InstanceType
from core.model.snapshot import Options
from core.scheduling import schedule
from installation.wiring import WAKE_UPS
from tests.e2e.functions.sandbox import Invocation
from tests.e2e.planned_pods import PlannedPods

DAEMONS: Final = ("DaemonSet", "Node")
GONE: Final = ("Succeeded", "Failed")


class Verdict(msgspec.Struct, kw_only=True, rename="camel"):
    """The result of a scenario; one row of the report.

    Attributes:
        pods: Pods that were to run, without daemons.
        bound_as_planned: On the node of the claim, or on the node, that they were planned for; or where one that was evicted
            was to go, in its place.
        bound_elsewhere: On another, or on one that had room before anything was planned.
        pending: Not running though they should.
        empty_nodes: Nodes of ours with nothing but daemons on them.
        planned_price: Nano-dollars per hour of the instances that run, as the plans of their claims have it.
        price: EC2's price of the same instances.
        violations: The violated invariants, a sentence each.
    """

    name: str
    pods: int
    bound_as_planned: int
    bound_elsewhere: int
    pending: int
    empty_nodes: int
    planned_price: int = 0
    price: int = 0
    violations: list[str] = []


class Elsewhere(msgspec.Struct, frozen=True):
    """One pod that is not where it was planned, for people: `planned` is empty where nothing was planned for it."""

    pod: str
    planned: str
    found: str


def judge(
    name: str, pods: Sequence[Mapping[str, Any]], nodes: Sequence[Mapping[str, Any]], planned: PlannedPods
) -> tuple[Verdict, list[Elsewhere]]:
    """Compare the present cluster with the plans; the caller adds violations."""
    by_provider = {node["spec"].get("providerID", ""): node for node in nodes}
    providers = {node["metadata"]["name"]: provider for provider, node in by_provider.items()}
    running = [pod for pod in pods if _counts(pod)]
    elsewhere: list[Elsewhere] = []
    as_planned = pending = 0
    for pod in running:
        if pod["status"].get("phase") != "Running":
            pending += 1
            continue
        key, found = _key(pod), pod["spec"]["nodeName"]
        expected = planned.node_expected(key, by_provider)
        if expected == found or (expected is None and planned.expects_kin(key, providers.get(found, ""))):
            as_planned += 1
        else:
            elsewhere.append(Elsewhere(key, expected or "", found))
    verdict = Verdict(
        name=name,
        pods=len(running),
        bound_as_planned=as_planned,
        bound_elsewhere=len(elsewhere),
        pending=pending,
        empty_nodes=len(empty_nodes(nodes, pods)),
    )
    return verdict, elsewhere


def empty_nodes(nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the nodes with no pods but daemons."""
    busy = {pod["spec"].get("nodeName") for pod in pods if _counts(pod)}
    return sorted(node["metadata"]["name"] for node in nodes if node["metadata"]["name"] not in busy)


def _counts(pod: Mapping[str, Any]) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    is_daemon = any(owner["kind"] in DAEMONS for owner in owners)
    return not is_daemon and "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") not in GONE


def _key(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


# The price of one plan of a whole workload, which the nodes of a real control plane are held against.


STEPS: Final = 60
"""Of the search for cheaper nodes; bounded by steps, so that the answer is the same on every machine."""


def price_of_one_plan(manifests: Iterable[JsonObject], types: Iterable[InstanceType]) -> int:
    """Nano-dollars per hour of the nodes for these workloads in an empty cluster.

    Raises:
        ValueError: If a pod of them can run nowhere: there is no price for all then.
    """
    inventory = take_inventory(Document("scene", number, one) for number, one in enumerate(manifests))
    snapshot, _ = assemble(
        inventory.objects,
        now=datetime(2026, 1, 1, tzinfo=UTC),
        catalogue=Catalogue(default=tuple(types)),
        options=Options(improve_iterations=STEPS),
    )
    plan = schedule(snapshot)
    if plan.unschedulable:
        raise ValueError(f"{len(plan.unschedulable)} pods run nowhere, first {plan.unschedulable[0]}")
    return sum(claim.price for claim in plan.claims)


# Whether the audit log woke the planner: a launch in time proves nothing, for the schedule would have brought it, too.


UNSCHEDULABLE: Final = "auditPodUnschedulable"
WAKE_UP: Final = "wakeUps"


def launched_when_woken(invocations: Iterable[Invocation]) -> set[str]:
    """The claims launched by runs of `provision` that its queue started, once the audit log had told of a waiting pod."""
    runs = [run for run in invocations if isinstance(run.response, Mapping)]
    told = [
        run.started_at
        for run in runs
        if run.function == "watch_audit_log" and run.response.get(UNSCHEDULABLE) and run.response.get(WAKE_UP)
    ]
    first = min(told, default=math.inf)
    woken = [run for run in runs if (run.function, run.trigger) == ("provision", f"queue:{WAKE_UPS.name}")]
    return {name for run in woken if run.started_at >= first for name in _launched(run.response)}


def _launched(response: Mapping[str, Any]) -> list[str]:
    decisions = response.get("decisions") or ()
    return [str(decision["subject"]) for decision in decisions if decision["kind"] == "launch"]
