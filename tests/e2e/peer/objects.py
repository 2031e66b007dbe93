"""The objects of both sides: the burst's workload in three sizes, and equivalent NodePools."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from core import labels
from core.api.objects import JsonObject
from core.model.catalogue import InstanceType, Offering
from core.model.values.requirements import Requirement, Requirements
from tests.e2e.scenarios import examples

NAMESPACE: Final = "burst"
DEPLOYMENTS: Final = {300: 30, 1000: 40, 3000: 40}
"""By pods; every size has all kinds of constraint, and pods of three or four sizes."""

BOOT: Final = timedelta(seconds=20)
"""From launch to registration on both sides: a fast EC2 instance. Our functions do not look for a node sooner than 15 s."""

CONSOLIDATE_AFTER: Final = "10s"
NODE_CLASS: Final = "default"


def pools() -> list[JsonObject]:
    """The NodePools in our form: one for everyone, one tainted; they consolidate nothing yet."""
    disruption = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "Never",
        "budgets": [{"nodes": "100%"}],
    }
    return [{**pool, "spec": {**pool["spec"], "disruption": disruption}} for pool in examples.pools()]


def workload(pods: int) -> list[JsonObject]:
    """Return Deployments with this many pods in total."""
    deployments = DEPLOYMENTS[pods]
    return examples.workload(NAMESPACE, pods // deployments, deployments)


def kwok_node_class() -> JsonObject:
    """A KWOKNodeClass whose nodes take as long to boot as our kubelets."""
    return {
        "apiVersion": "karpenter.kwok.sh/v1alpha1",
        "kind": "KWOKNodeClass",
        "metadata": {"name": NODE_CLASS},
        "spec": {"nodeRegistrationDelay": f"{round(BOOT.total_seconds())}s"},
    }


def for_karpenter(pool: JsonObject) -> JsonObject:
    """The NodePool with a KWOKNodeClass, and without the requirements that `catalogue.instance_types` has applied already."""
    template = pool["spec"]["template"]
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": NODE_CLASS}
    kept = [one for one in template["spec"]["requirements"] if not _is_aws(one)]
    spec = {**template["spec"], "nodeClassRef": reference, "requirements": kept}
    return {**pool, "spec": {**pool["spec"], "template": {**template, "spec": spec}}}


def admitted(pool: JsonObject) -> Requirements:
    """Return the NodePool's requirements on its types."""
    return Requirements(
        Requirement.of(one["key"], one["operator"], one["values"])
        for one in pool["spec"]["template"]["spec"]["requirements"]
    )


def consolidating() -> JsonObject:
    """Return the patch that makes a NodePool consolidate."""
    return {"spec": {"disruption": {"consolidateAfter": CONSOLIDATE_AFTER}}}


def _is_aws(requirement: JsonObject) -> bool:
    return str(requirement["key"]).startswith(f"{labels.AWS_GROUP}/")


# Our catalogue in the format of Karpenter's kwok provider: the same types, offerings, prices and allocatable.


NANO: Final = 1_000_000_000
KEPT_BY_KWOK: Final = {"cpu": 100, "memory": 10 * 1024 * 1024}
"""What its kwok provider takes off every type's resources (milli-CPU, bytes); added here, so that our allocatable is left."""


def instance_types(types: Iterable[InstanceType], pool: Requirements) -> list[JsonObject]:
    """The types that a NodePool of these requirements may launch, as its `INSTANCE_TYPES_FILE_PATH` holds them.

    The format has no labels but architecture, system, zone and capacity type. So the NodePool's requirements on other
    labels decide here which types there are, and are left out of the NodePool that Karpenter gets.
    """
    return [_instance_type(one) for one in types if one.requirements().compatible(pool)]


def _instance_type(one: InstanceType) -> JsonObject:
    return {
        "name": one.name,
        "architecture": one.labels[labels.ARCH][0],
        "operatingSystems": list(one.labels[labels.OS]),
        "resources": _resources(one.allocatable()),
        "offerings": [_offering(offering) for offering in one.offerings if offering.available],
    }


def _resources(allocatable: dict[str, int]) -> dict[str, str]:
    whole = {name: amount + KEPT_BY_KWOK.get(name, 0) for name, amount in allocatable.items()}
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in sorted(whole.items())}


def _offering(offering: Offering) -> JsonObject:
    return {
        "Price": offering.price / NANO,
        "Available": True,
        "Requirements": [
            _one_of(labels.CAPACITY_TYPE, [offering.capacity_type]),
            _one_of(labels.ZONE, [offering.zone]),
        ],
    }


def _one_of(key: str, values: Sequence[str]) -> JsonObject:
    return {"key": key, "operator": "In", "values": list(values)}


class Prices:
    """Prices nodes by the labels that both sides' nodes have."""

    def __init__(self, types: Iterable[InstanceType]) -> None:
        self._prices = {(one.name, o.zone, o.capacity_type): o.price for one in types for o in one.offerings}

    def per_hour(self, nodes: Iterable[JsonObject]) -> int:
        """Nano-dollars per hour of all these nodes together; a node without a place yet counts as nothing."""
        keys = (node["metadata"]["labels"] for node in nodes)
        return sum(
            self._prices[found[labels.INSTANCE_TYPE], found[labels.ZONE], found[labels.CAPACITY_TYPE]]
            for found in keys
            if labels.ZONE in found and labels.CAPACITY_TYPE in found
        )
