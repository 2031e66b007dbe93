"""How long pods wait for their nodes where AWS keeps its silences, which the seed draws: for us, and for Karpenter's model.

`python -m benchmarks.latency --seeds 20` plays each seed's world once for each way, and writes docs/latency.json:

- as deployed by default, woken by the audit log and by the schedule;
- with `lookSeconds: 15`, a second way to be woken that needs no log;
- Karpenter's controllers in place of our functions (`Karpenter`), in the same world with the same draws.

A call takes the same time for both, and neither side's computing is counted. Lost answers are not drawn: how long a
program waits for one is a setting of its client.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml
from botocore.exceptions import ClientError

from core import labels
from core.manifests.wire import resources
from core.model.values.taints import UNREGISTERED
from simulator.aws.ec2.fleet import DISCOVERY
from simulator.cluster.store import Change
from simulator.invocation.faults import latency
from simulator.world import World, run

TARGET: Final = Path(__file__).parents[1] / "docs" / "latency.json"
START: Final = "2026-11-20T00:00:00Z"
BURSTS: Final = 4
FIRST: Final = timedelta(minutes=10)
"""The EC2NodeClass is ready by then, even with small buckets of requests: that wait is a deployment's, not a pod's."""

BETWEEN: Final = timedelta(minutes=9)
DURATION: Final = "50m"
REPLICAS: Final = (2, 3, 5, 8)
INSTANCE_TYPE: Final = "m7i.large"
IMAGE: Final = "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/x86_64/standard/recommended/image_id"

KARPENTER: Final = "Karpenter's controllers"
VARIANTS: Final[dict[str, dict[str, Any]]] = {
    "default": {},
    "lookSeconds: 15": {"lookSeconds": 15},
    KARPENTER: {"mode": "shadow"},
}
"""Name → settings of the functions. In shadow mode they change nothing."""


def silences(rng: Random) -> dict[str, Any]:
    """Return a world's `spec.aws`: each silence has a median and a tail within what is known of AWS."""
    lag, boot = rng.choice((2, 8, 20, 60, 120)), rng.choice((25, 40, 60, 90))
    return {
        "auditLogLag": {"p50": f"{lag}s", "p99": f"{min(180, 3 * lag)}s"},
        "boot": {"p50": f"{boot}s", "p99": f"{min(180, 2 * boot)}s"},
        "describeLag": {"p50": "1s", "p99": f"{rng.choice((2, 10, 30))}s"},
        "scheduleJitter": {"p50": "5s", "p99": f"{rng.choice((10, 30, 60))}s"},
        "tagLag": f"{rng.choice((0, 2, 10))}s",
        "partialLists": rng.choice((0.0, 0.1, 0.3)),
        "repeatedLaunch": rng.choice(("whole", "silent")),
        "requestTokens": rng.choice(({"burst": 50, "perSecond": 5.0}, {"burst": 5, "perSecond": 1.0})),
        "instanceTokens": rng.choice(({"burst": 1000, "perSecond": 2.0}, {"burst": 5, "perSecond": 2.0})),
        "eventLag": {"p50": "2s", "p99": f"{rng.choice((10, 90))}s"},
        "repeats": rng.choice((0.0, 0.1, 0.3)),
        "unordered": rng.choice((False, True)),
    }


class Karpenter:
    """Karpenter's controllers as far as they decide when a pod runs, with its defaults.

    Sources: karpenter 1.15, `pkg/controllers/provisioning` (batcher, controller, provisioner) and `nodeclaim/lifecycle`;
    karpenter-provider-aws, `pkg/batcher`. Each pod of these worlds fills a node, so a batch needs as many nodes as it has pods.
    """

    def __init__(self, world: World) -> None:
        self._clock, self._store = world.clock, world.cluster.store
        self._session = world.account.session
        self._request: dict[str, Any] = {}
        self._has_claim: set[str] = set()
        self._batch: dict[str, None] = {}
        self._opened = self._last = world.clock.now()
        self._launching = 0
        self._store.watch(self._pod_changed, resources.PODS)
        self._store.watch(self._node_changed, resources.NODES)
        self._clock.begin(self._prepare)

    def _prepare(self) -> None:
        """Resolve the EC2NodeClass, as is done long before a pod waits."""
        ec2 = self._session.client("ec2")
        image = self._session.client("ssm").get_parameters(Names=[IMAGE])["Parameters"][0]["Value"]
        discovered = [{"Name": f"tag:{key}", "Values": [value]} for key, value in DISCOVERY.items()]
        groups = ec2.describe_security_groups(Filters=discovered)["SecurityGroups"]
        taints = [{"key": UNREGISTERED.key, "effect": UNREGISTERED.effect}]
        node_config = {
            "apiVersion": "node.eks.aws/v1alpha1",
            "kind": "NodeConfig",
            "spec": {"kubelet": {"config": {"registerWithTaints": taints}}},
        }
        user_data = f"MIME-Version: 1.0\nContent-Type: application/node.eks.aws\n\n{yaml.safe_dump(node_config)}"
        ec2.create_launch_template(
            LaunchTemplateName="karpenter",
            LaunchTemplateData={
                "ImageId": image,
                "UserData": base64.b64encode(user_data.encode()).decode(),
                "SecurityGroupIds": [group["GroupId"] for group in groups],
            },
        )
        subnets = ec2.describe_subnets(Filters=discovered)["Subnets"]
        overrides = [{"InstanceType": INSTANCE_TYPE, "SubnetId": subnet["SubnetId"]} for subnet in subnets]
        template = {"LaunchTemplateName": "karpenter", "Version": "$Latest"}
        self._request = {
            "Type": "instant",
            "LaunchTemplateConfigs": [{"LaunchTemplateSpecification": template, "Overrides": overrides}],
        }

    def _pod_changed(self, change: Change) -> None:
        if change.new is not None and (change.old is None or not _is_unschedulable(change.old)):
            self._trigger(change.new["metadata"]["uid"], change.new)

    def _trigger(self, uid: str, pod: dict[str, Any]) -> None:
        """Put a pod into the open batch, and look again in ten seconds: a batch may pass without a plan."""
        if uid in self._has_claim or not _is_unschedulable(pod):
            return
        self._clock.after(TRIGGER_AGAIN, lambda: self._trigger(uid, pod))
        now = self._clock.now()
        if not self._batch:
            self._opened = now
            self._clock.after(BATCH_IDLE, self._close)
        if uid not in self._batch:
            self._batch[uid] = None
            self._last = now

    def _close(self) -> None:
        due = min(self._last + BATCH_IDLE, self._opened + BATCH_MAX)
        if self._clock.now() < due:
            self._clock.at(due, self._close)
            return
        batch, self._batch = self._batch, {}
        if self._launching:  # its picture of the cluster lacks the nodes that are being launched
            return
        self._has_claim |= batch.keys()
        self._launching = len(batch)
        self._clock.begin(self._launch)

    def _launch(self) -> None:
        """Create a batch's NodeClaims, side by side, and launch them with one request; what it lacks is asked for again."""
        self._clock.spend(latency("kube:create nodeclaims"))
        for attempt in range(LAUNCHES_MAX):
            self._clock.spend(FLEET_IDLE)
            self._launching -= self._launched(self._launching)
            if not self._launching:
                return
            self._clock.spend(min(LAUNCH_AGAIN * 2**attempt, LAUNCH_AGAIN_MAX))
        raise RuntimeError(f"{self._launching} nodes were not launched")

    def _launched(self, count: int) -> int:
        capacity = {"TotalTargetCapacity": count, "DefaultTargetCapacityType": "on-demand"}
        try:
            answer = self._session.client("ec2").create_fleet(**self._request, TargetCapacitySpecification=capacity)
        except ClientError:
            return 0
        return sum(len(group["InstanceIds"]) for group in answer.get("Instances") or ())

    def _node_changed(self, change: Change) -> None:
        if change.old is None and change.new is not None:
            name = change.new["metadata"]["name"]
            self._clock.after(latency("kube:patch nodes"), lambda: self._register(name))

    def _register(self, name: str) -> None:
        node = self._store.get(resources.NODES, name)
        taints = [taint for taint in node["spec"].get("taints") or () if taint["key"] != UNREGISTERED.key]
        patch = {"metadata": {"labels": {labels.REGISTERED: "true"}}, "spec": {"taints": taints}}
        self._store.patch(resources.NODES, name, patch)


BATCH_IDLE, BATCH_MAX = timedelta(seconds=1), timedelta(seconds=10)
"""`BATCH_IDLE_DURATION` and `BATCH_MAX_DURATION`: a batch ends a second after its last new pod, ten after its first."""

TRIGGER_AGAIN: Final = timedelta(seconds=10)
"""How soon a pod that still waits triggers again."""

FLEET_IDLE: Final = timedelta(milliseconds=35)
"""How long equal requests of CreateFleet are gathered."""

LAUNCH_AGAIN, LAUNCH_AGAIN_MAX = timedelta(seconds=1), timedelta(minutes=1)
"""How soon a NodeClaim that was not launched is tried again: twice as late each time."""

LAUNCHES_MAX: Final = 20


def _is_unschedulable(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any((c["type"], c.get("reason")) == ("PodScheduled", "Unschedulable") for c in conditions)


def scenario(folder: Path, seed: int, settings: dict[str, Any]) -> Path:
    """Write a seed's world: four Deployments come at odd seconds, each needs new nodes."""
    rng = Random(seed)  # noqa: S311 - a benchmark's draws
    aws = silences(rng)
    moments = [FIRST + BETWEEN * number + timedelta(seconds=rng.randrange(60)) for number in range(BURSTS)]
    steps = []
    for number, moment in enumerate(moments):
        file = folder / f"burst-{number}.yaml"
        file.write_text(yaml.safe_dump(_deployment(f"burst-{number}", rng.choice(REPLICAS))), encoding="utf-8")
        steps.append({"at": f"{int(moment.total_seconds())}s", "apply": [file.name]})
    (folder / "pool.yaml").write_text(yaml.safe_dump_all(pool()), encoding="utf-8")
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


def pool() -> list[dict[str, Any]]:
    """An EC2NodeClass, and a NodePool of one type."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [INSTANCE_TYPE]},
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
    node_pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": requirements}},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"},
        },
    }
    return [node_class, node_pool]


def waits(seed: int, variant: str) -> list[float]:
    """Return the seconds that each pod of a world waited until it was bound; all pods must have been."""
    beside: Callable[[World], object] = Karpenter if variant == KARPENTER else lambda _: None
    with tempfile.TemporaryDirectory() as folder:
        result = run(scenario(Path(folder), seed, VARIANTS[variant]), beside=beside)
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
    by_variant: dict[str, dict[str, list[float]]] = {name: {"all": [], "quick": [], "slow": []} for name in VARIANTS}
    for seed in seeds:
        lag = int(silences(Random(seed))["auditLogLag"]["p50"].removesuffix("s"))  # noqa: S311 - the world's draw
        for name, parts in by_variant.items():
            seconds = waits(seed, name)
            parts["all"] += seconds
            parts["slow" if lag >= 60 else "quick"] += seconds
    return {
        name: {part: {**percentiles(seconds), "pods": len(seconds)} for part, seconds in parts.items() if seconds}
        for name, parts in by_variant.items()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the worlds and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--to", type=Path, default=TARGET)
    parsed = parser.parse_args(arguments)
    figures = by_lag(range(parsed.seeds))
    document = {"seeds": parsed.seeds, "waits": figures}
    parsed.to.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
