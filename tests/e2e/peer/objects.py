"""The objects of both sides: the burst's workload in three sizes, and equivalent NodePools."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from core import labels
from core.api.objects import JsonObject
from core.model.values.requirements import Requirement, Requirements
from tests.e2e.scenarios import burst

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
    return [{**pool, "spec": {**pool["spec"], "disruption": disruption}} for pool in burst.pools()]


def workload(pods: int) -> list[JsonObject]:
    """Return Deployments with this many pods in total."""
    deployments = DEPLOYMENTS[pods]
    return burst.workload(NAMESPACE, pods // deployments, deployments)


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
