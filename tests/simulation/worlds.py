"""Scenarios for tests: a small catalogue, a NodePool that takes everything, a Deployment."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from core import labels
from simulator.outcome import VIOLATIONS
from simulator.record import Event
from simulator.world import Result, run
from tests.builders import a_class_manifest

ZONES = ("zone-a", "zone-b")
SIZES = {"small": 2, "medium": 4, "large": 16}


def catalogue() -> dict[str, Any]:
    """Three sizes in two zones, spot at a third of the price."""
    return {
        "instanceTypes": [
            {
                "name": f"test.{size}",
                "requirements": {"kubernetes.io/arch": ["amd64"], "kubernetes.io/os": ["linux"]},
                "capacity": {"cpu": str(cpus), "memory": f"{4 * cpus}Gi", "pods": "110"},
                "overhead": {"cpu": "100m", "memory": "200Mi"},
                "offerings": [
                    {"zone": zone, "capacityType": kind, "price": round(0.05 * cpus * share, 4)}
                    for zone in ZONES
                    for kind, share in (("on-demand", 1.0), ("spot", 0.3))
                ],
            }
            for size, cpus in SIZES.items()
        ]
    }


def node_pool(**spec: Any) -> dict[str, Any]:
    """The NodePool `default`."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    requirement = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]}
    disruption = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "1m",
        "budgets": [{"nodes": "100%"}],
    }
    template = {"spec": {"nodeClassRef": reference, "requirements": [requirement]}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {"template": template, "disruption": disruption, **spec},
    }


def deployment(replicas: int, name: str = "web", cpu: str = "1") -> dict[str, Any]:
    """A Deployment in the namespace `default`."""
    container = {"name": "main", "image": name, "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


def group(name: str, size: int) -> dict[str, Any]:
    """A Deployment whose pods start together in one zone; each fills a node."""
    manifest = deployment(size, name, cpu="12")
    notes = {labels.GROUP: name, labels.GROUP_MINIMUM: str(size), labels.GROUP_TOPOLOGY: labels.ZONE}
    manifest["spec"]["template"]["metadata"]["annotations"] = notes
    return manifest


def large_nodes() -> dict[str, Any]:
    """A NodePool of one size, on demand: a group's request has one capacity in each zone."""
    manifest = node_pool()
    manifest["spec"]["template"]["spec"]["requirements"] = [
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": [labels.ON_DEMAND]},
        {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["test.large"]},
    ]
    return manifest


def write(folder: Path, *objects: dict[str, Any], steps: list[dict[str, Any]], **spec: Any) -> Path:
    """A scenario over these objects, and the usual EC2NodeClass where they bring none."""
    (folder / "catalog.json").write_text(json.dumps(catalogue()))
    brings_class = any(obj["kind"] == "EC2NodeClass" for obj in objects)
    usual = () if brings_class else (a_class_manifest(),)
    (folder / "objects.yaml").write_text(yaml.safe_dump_all([*usual, *objects]))
    scenario = {
        "apiVersion": "fleetwright.dev/v1",
        "kind": "Scenario",
        "metadata": {"name": "test"},
        "spec": {
            "start": "2026-11-20T00:00:00Z",
            "duration": "20m",
            "seed": 1,
            "catalog": "catalog.json",
            "manifests": ["objects.yaml"],
            "steps": steps,
            **spec,
        },
    }
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump(scenario))
    return path


def play(folder: Path, *objects: dict[str, Any], steps: list[dict[str, Any]] | None = None, **spec: Any) -> Result:
    """Write a scenario and run it."""
    return run(write(folder, *objects, steps=steps or [], **spec))


def named(result: Result, event: str) -> list[dict[str, Any]]:
    """The fields of all events of this name."""
    return [occurrence.fields for occurrence in result.events if occurrence.event == event]


def happened(result: Result, event: str) -> list[Event]:
    """All events of this name; of taints only those that close a node because it goes: nodes that boot carry others."""
    occurrences = [occurrence for occurrence in result.events if occurrence.event == event]
    return [
        happening
        for happening in occurrences
        if event != "nodeTainted" or happening.fields["key"] == labels.DISRUPTED_TAINT
    ]


def assert_lawful(result: Result) -> None:
    """Check that no judge found a violation, and that no handler raised anything but injected faults."""
    assert result.violations == ()
    assert all(result.summary[law] == 0 for law in VIOLATIONS)
    raised = [failure.rstrip().rpartition("\n")[2] for failure in result.failures]
    assert [error for error in raised if not error.startswith("adapters.ports.")] == []
    assert [event for event in result.events if event.fields.get("reason") == "ImprovementFailed"] == []


def lifetimes(result: Result) -> list[float]:
    """Seconds for which instances ran that have ended."""
    ends = {event.fields["instance"]: event.t for event in result.events if event.event == "instanceTerminated"}
    return [
        (datetime.fromisoformat(ends[event.fields["instance"]]) - datetime.fromisoformat(event.t)).total_seconds()
        for event in result.events
        if event.event == "instanceLaunched" and event.fields["instance"] in ends
    ]
