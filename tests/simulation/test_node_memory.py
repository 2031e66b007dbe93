"""Memory that the first node of a type shows is what later nodes of the type are planned with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.model.values.quantity import MEMORY
from simulator.market import node_facts
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play

MIB = 2**20
SHOWN = 7900 * MIB
"""Of an m5.large, which is sold with 8192 MiB and estimated at 7577: 7226 MiB of it are for pods, not 6903."""


def wanting(name: str, memory: str) -> dict[str, Any]:
    """One pod with this request."""
    pod = deployment(1, name=name, cpu="1")
    pod["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = memory
    return pod


def test_a_second_node_is_planned_with_what_the_first_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the estimate, the second pod would need the next size, at twice the price."""
    facts = node_facts.recording()["m5.large"]
    shown = msgspec.structs.replace(facts, capacity={**facts.capacity, MEMORY: SHOWN})
    monkeypatch.setattr(node_facts, "recording", lambda: {**_RECORDED, "m5.large": shown})
    pool = node_pool(disruption={"consolidateAfter": "Never"})
    types = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large", "m5.xlarge"]}
    on_demand = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    pool["spec"]["template"]["spec"]["requirements"] = [types, on_demand]
    steps = [{"at": "6m", "apply": [wanting("second", "7100Mi")]}]
    result = play(tmp_path, pool, wanting("first", "5Gi"), steps=steps, catalog=None, duration="12m")
    assert_lawful(result)
    assert [found["instanceType"] for found in named(result, "instanceLaunched")] == ["m5.large", "m5.large"]
    assert result.summary["podsScheduled"] == 2
    writes = [o["object"] for o in named(result, "objectApplied") if o["kind"] == "EC2NodeClass"]
    texts = [one["metadata"].get("annotations", {}).get("fleetwright.dev/node-memory") for one in writes]
    assert {text.partition('"mib":')[2] for text in texts if text} == {'{"m5.large":7900}}'}


_RECORDED = node_facts.recording()
