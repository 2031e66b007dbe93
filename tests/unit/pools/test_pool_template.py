"""What a NodePool's template gives to each of its nodes."""

from __future__ import annotations

from core import labels
from core.model.values.requirements import Requirement
from core.pools.pool_template import template_labels, template_parts, template_requirements
from tests.builders import a_pool

IN_TEAM = Requirement.one_of("team", "a", "b")


def test_nodes_carry_the_labels_of_the_template_their_pool_and_their_class() -> None:
    found = template_labels(a_pool("default", IN_TEAM, labels={"own": "x", labels.NODEPOOL: "another"}))
    assert found == {"own": "x", labels.NODEPOOL: "default", "karpenter.k8s.aws/ec2nodeclass": "default"}


def test_requirements_on_one_label_are_met_together() -> None:
    """Pods may select what a node gets while it boots, although no claim carries it."""
    narrower = Requirement.one_of("team", "b", "c")
    pool = a_pool("default", IN_TEAM, narrower)
    assert [part for part in template_parts(pool) if part.key == "team"] == [IN_TEAM, narrower]
    found = template_requirements(pool)
    assert found["team"].values == ("b",)
    assert all(found[key].values == ("true",) for key in (labels.REGISTERED, labels.INITIALIZED))
