"""Instances that no claim is known of, and rows that are lost."""

from __future__ import annotations

from typing import Any

from adapters.ports import ThrottledError
from core.manifests.wire import resources
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod


def ids(lab: Lab) -> list[str]:
    return [instance.instance_id for instance in lab.cloud.instances()]


ALONE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
        ]
    }
}


def _refuse_names(call: str) -> None:
    if call == "tag":
        raise ThrottledError("ec2:CreateTags", "Request limit exceeded.")


def a_fleet(nodes: int, *others: dict[str, Any], is_named: bool = True) -> Lab:
    """So many nodes with a pod each, in a NodePool with every field that a claim copies, and other objects."""
    lab = Lab()
    template = {
        "expireAfter": "48h",
        "terminationGracePeriod": "1h",
        "startupTaints": [{"key": "boots", "effect": "NoSchedule"}],
        "requirements": [{"key": "company.com/team", "operator": "In", "values": ["a", "b"]}],
    }
    lab.kubernetes.put(a_node_pool(template=template), *others)
    lab.kubernetes.put(*(a_pending_pod(f"p{n}", metadata={"labels": {"a": "b"}}, affinity=ALONE) for n in range(nodes)))
    lab.provision()
    if not is_named:
        lab.cloud.before_call = _refuse_names
    lab.boot()
    lab.tick(2)
    for claim in lab.claims:
        lab.kubernetes.amend(resources.NODES, claim.node_name, {"spec": {"taints": []}})
    lab.tick(4)
    for number, claim in enumerate(lab.claims):
        body = {"spec": {"nodeName": claim.node_name}, "status": {"phase": "Running", "conditions": []}}
        lab.kubernetes.amend(resources.PODS, f"p{number}", body, namespace="default")
    lab.cloud.before_call = lambda _: None
    lab.work.take()
    return lab


def lose(lab: Lab, *names: str) -> None:
    """Delete rows, and the counters too if all rows go."""
    for name in names or tuple(lab.rows.claims):
        del lab.rows.claims[name]
    if not names:
        lab.rows.usage.clear()
