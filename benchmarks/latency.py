"""How long pods wait for their nodes where AWS keeps its silences: audit log, boot, lists and schedules are drawn by the seed.

`python -m benchmarks.latency --seeds 20` plays each seed's world three times, and writes docs/latency.json:

- as deployed by default, woken by the audit log and by the schedule;
- with `lookSeconds: 15`, a second way to be woken that needs no log;
- as a controller that watches the API server: told of each pod at once, it waits for a batch of one second as Karpenter does,
  and then launches by the same functions in the same world. It says what the log costs, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml

from simulator.world import run

TARGET: Final = Path(__file__).parents[1] / "docs" / "latency.json"
START: Final = "2026-11-20T00:00:00Z"
BURSTS: Final = 4
BETWEEN: Final = timedelta(minutes=9)
DURATION: Final = "40m"
REPLICAS: Final = (2, 3, 5, 8)
BATCH_SECONDS: Final = 1
"""Karpenter's batchIdleDuration: it plans once no further pod has come for a second."""

VARIANTS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "default": ({}, {}),
    "lookSeconds: 15": ({"lookSeconds": 15}, {}),
    "a watch": ({}, {"auditLogLag": f"{BATCH_SECONDS}s"}),
}
"""Name → settings of the functions, and what replaces the draws of the seed."""


def silences(rng: Random) -> dict[str, Any]:
    """Return a world's `spec.aws`: each silence has a median and a tail within what is known of AWS."""
    lag, boot = rng.choice((2, 8, 20, 60, 120)), rng.choice((25, 40, 60, 90))
    return {
        "auditLogLag": {"p50": f"{lag}s", "p99": f"{min(180, 3 * lag)}s"},
        "boot": {"p50": f"{boot}s", "p99": f"{min(180, 2 * boot)}s"},
        "describeLag": {"p50": "1s", "p99": f"{rng.choice((2, 10, 30))}s"},
        "scheduleJitter": {"p50": "5s", "p99": f"{rng.choice((10, 30, 60))}s"},
    }


def scenario(folder: Path, seed: int, settings: dict[str, Any], replaced: dict[str, Any]) -> Path:
    """Write a seed's world: four Deployments come at odd seconds, each needs new nodes."""
    rng = Random(seed)  # noqa: S311 - a benchmark's draws
    aws = silences(rng) | replaced
    moments = [BETWEEN * number + timedelta(seconds=rng.randrange(60, 120)) for number in range(BURSTS)]
    steps = []
    for number, moment in enumerate(moments):
        file = folder / f"burst-{number}.yaml"
        file.write_text(yaml.safe_dump(_deployment(f"burst-{number}", rng.choice(REPLICAS))), encoding="utf-8")
        steps.append({"at": f"{int(moment.total_seconds())}s", "apply": [file.name]})
    (folder / "pool.yaml").write_text(yaml.safe_dump_all(_pool()), encoding="utf-8")
    spec = {
        "start": START,
        "duration": DURATION,
        "seed": seed,
        "manifests": ["pool.yaml"],
        "aws": aws,
        "settings": settings,
        "steps": steps,
    }
    document = {"apiVersion": "fleetwright.dev/v1", "kind": "Scenario", "metadata": {"name": "latency"}, "spec": spec}
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def _deployment(name: str, replicas: int) -> dict[str, Any]:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1800m", "memory": "2Gi"}}}
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


def _pool() -> list[dict[str, Any]]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m7i.large"]},
    ]
    selected = [{"tags": {"karpenter.sh/discovery": "fleetwright"}}]
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "FleetwrightNodeRole",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": selected,
            "securityGroupSelectorTerms": selected,
        },
    }
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": requirements}},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
        },
    }
    return [node_class, pool]


def waits(seed: int, variant: str) -> list[float]:
    """Return the seconds that each pod of a world waited until it was bound; all pods must have been."""
    settings, replaced = VARIANTS[variant]
    with tempfile.TemporaryDirectory() as folder:
        result = run(scenario(Path(folder), seed, settings, replaced))
    seconds: list[float] = []
    created: dict[str, datetime] = {}
    for event in result.events:
        if event.event == "podCreated":
            created[event.fields["pod"]] = datetime.fromisoformat(event.t)
        elif event.event == "podBound" and event.fields["pod"] in created:
            at = datetime.fromisoformat(event.t)
            seconds.append((at - created.pop(event.fields["pod"])).total_seconds())
    if created or result.violations:
        raise RuntimeError(f"seed {seed}, {variant}: {len(created)} pods wait, {len(result.violations)} violations")
    return seconds


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return the median and the 99th percentile, each a value that was seen."""
    ordered = sorted(values)
    return {"p50": ordered[(len(ordered) - 1) // 2], "p99": ordered[(len(ordered) - 1) * 99 // 100]}


def by_lag(seeds: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Return variant → percentiles over all worlds, and over those whose audit log is quick or slow."""
    found: dict[str, dict[str, list[float]]] = {name: {"all": [], "quick": [], "slow": []} for name in VARIANTS}
    for seed in seeds:
        lag = int(silences(Random(seed))["auditLogLag"]["p50"].removesuffix("s"))  # noqa: S311 - the world's draw
        for name, parts in found.items():
            seconds = waits(seed, name)
            parts["all"] += seconds
            parts["slow" if lag >= 60 else "quick"] += seconds
    return {
        name: {part: {**percentiles(seconds), "pods": len(seconds)} for part, seconds in parts.items() if seconds}
        for name, parts in found.items()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the worlds and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--to", type=Path, default=TARGET)
    given = parser.parse_args(arguments)
    figures = by_lag(range(given.seeds))
    document = {"seeds": given.seeds, "waits": figures}
    given.to.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
