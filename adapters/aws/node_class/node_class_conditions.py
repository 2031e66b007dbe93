"""Makes the conditions of an EC2NodeClass: what keeps nodes from being launched from it, without asking AWS."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from adapters.aws.eks import ClusterDescription
from adapters.ports import JsonObject
from core import api, labels
from core.ami_families.bootstrap import registered_taints
from core.api.objects import generation_of
from core.catalogue.kubelet import expressions
from core.catalogue.node_class import EC2NodeClass
from core.catalogue.sizing import sizing_of
from core.errors import InvalidInputError
from core.launch.block_devices import block_device_mappings
from core.launch.node_bootstrap import bootstrap_of
from core.model.values.sizing_settings import SizingSettings

READY: Final = "Ready"
VALID: Final = "ValidationSucceeded"


class ClassCondition(msgspec.Struct, frozen=True):
    """One condition: True without a reason, False with one."""

    reason: str = ""
    message: str = ""


def written_conditions(manifest: JsonObject, by_type: Mapping[str, ClassCondition], now: datetime) -> list[JsonObject]:
    """Return the conditions as the status has them, with Ready; an unchanged condition keeps its time."""
    before = {c.get("type"): c for c in (manifest.get("status") or {}).get("conditions") or ()}
    bad = sorted(name for name, condition in by_type.items() if condition.reason)
    root = ClassCondition("UnhealthyDependents", f"{', '.join(bad)} is False") if bad else ClassCondition()
    stamp = now.isoformat().replace("+00:00", "Z")
    written: list[JsonObject] = []
    for name, condition in sorted({**by_type, READY: root}.items()):
        status = "False" if condition.reason else "True"
        known = before.get(name) or {}
        is_same = known.get("status") == status and known.get("lastTransitionTime")
        written.append(
            {
                "type": name,
                "status": status,
                "reason": condition.reason or name,
                "message": condition.message,
                "lastTransitionTime": known["lastTransitionTime"] if is_same else stamp,
                "observedGeneration": generation_of(manifest),
            }
        )
    return written


def rules_problem(manifest: JsonObject) -> ClassCondition | None:
    """Apply the rules of our API, since the API server may have older or Karpenter's rules: plans exclude an invalid class."""
    named = {"apiVersion": f"{labels.AWS_GROUP}/v1", "kind": "EC2NodeClass", **manifest}
    found = api.problems(named)
    if not found:
        return None
    of_kubelet = all(problem.field.startswith("spec.kubelet") for problem in found)
    message = "; ".join(f"{problem.field}: {problem.message}" for problem in found)
    return ClassCondition("InvalidKubeletConfiguration" if of_kubelet else "InvalidSpec", message)


def rendering_problem(
    node_class: EC2NodeClass, described: ClusterDescription, by_type: Mapping[str, ClassCondition]
) -> ClassCondition:
    """Check that a launch can be rendered: an error here would fail the launch of every node."""
    family, computed = node_class.family, expressions(node_class.spec.kubelet)
    try:
        sizing_of(node_class, SizingSettings())
        block_device_mappings(node_class.spec.block_device_mappings, family)
        family.user_data(bootstrap_of(node_class, described.cluster, labels={}, taints=registered_taints(())))
    except InvalidInputError as error:
        needs_cidr = family.needs_service_cidr and not described.cluster.service_cidr
        return ClassCondition("ClusterCIDRResolutionFailed" if needs_cidr else "InvalidConfiguration", str(error))
    if computed:
        problem = f"spec.kubelet: {', '.join(computed)} must be plain values, expressions are not evaluated"
        return ClassCondition("KubeletExpressionsDisabled", problem)
    bad = sorted(name for name, condition in by_type.items() if condition.reason)
    return ClassCondition("DependenciesNotReady", f"{', '.join(bad)} is False") if bad else ClassCondition()
