"""The embedded API server stores objects of ours as our CustomResourceDefinitions let a real one."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from core.errors import InvalidInputError
from core.manifests.wire import resources
from simulator.cluster.definitions import stored


def a_pool(**spec: Any) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {"spec": {"nodeClassRef": reference, "requirements": []}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "p", "labels": {"team": "a"}},
        "spec": {"template": template, **spec},
    }


def refused_field(obj: dict[str, Any], old: dict[str, Any] | None = None) -> str:
    with pytest.raises(InvalidInputError) as caught:
        stored(resources.NODE_POOLS, obj, old)
    return caught.value.field


def test_defaults_are_filled_in_and_unknown_fields_dropped() -> None:
    """As kubectl shows the object afterwards."""
    found = stored(resources.NODE_POOLS, a_pool(colour="red"))
    assert "colour" not in found["spec"]
    assert found["spec"]["disruption"]["consolidationPolicy"] == "WhenEmptyOrUnderutilized"
    assert found["metadata"] == a_pool()["metadata"]


def test_what_the_schema_or_a_rule_does_not_admit_is_refused() -> None:
    """A maximum, a type, and a rule in CEL."""
    assert refused_field(a_pool(weight=500)) == "spec.weight"
    assert refused_field(a_pool(weight="many")) == "spec.weight"
    few = a_pool()
    entry = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"], "minValues": 2}
    few["spec"]["template"]["spec"]["requirements"] = [entry]
    assert refused_field(few).startswith("spec.template.spec.requirements")


def test_transition_rules_hold_for_changes() -> None:
    """A NodePool becomes neither static nor dynamic, and keeps the group of its class."""
    old = stored(resources.NODE_POOLS, a_pool())
    assert refused_field(a_pool(replicas=2), old) == "spec.replicas"
    stored(resources.NODE_POOLS, a_pool(replicas=2))
    moved = copy.deepcopy(old)
    moved["spec"]["template"]["spec"]["nodeClassRef"]["group"] = "other.io"
    assert refused_field(moved, old).endswith("nodeClassRef.group")


def test_other_kinds_are_stored_as_they_are() -> None:
    """They have no definition of ours."""
    pod = {"metadata": {"name": "p"}, "spec": {"colour": "red"}}
    assert stored(resources.PODS, pod) is pod
