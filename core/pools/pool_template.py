"""The properties that a NodePool's template gives to every node of the pool."""

from __future__ import annotations

from core import labels
from core.model.node_pool import NodePool
from core.model.values.requirements import Requirement, Requirements

SIMULATED = (labels.REGISTERED, labels.INITIALIZED)
"""Labels that a node gets while it boots: pods may select them, claims do not carry them."""


def template_labels(pool: NodePool) -> dict[str, str]:
    """Labels that every node of the pool carries."""
    own = {**pool.labels, labels.NODEPOOL: pool.name}
    if pool.node_class.name:
        own[f"{pool.node_class.group}/{pool.node_class.kind.lower()}"] = pool.node_class.name
    return own


def template_requirements(pool: NodePool) -> Requirements:
    """Return the requirements on every node of the pool: the template's requirements and labels."""
    return Requirements(template_parts(pool))


def template_parts(pool: NodePool) -> tuple[Requirement, ...]:
    """Return the same requirements separately: several may concern one label."""
    fixed = [Requirement.one_of(key, value) for key, value in template_labels(pool).items()]
    fixed += [Requirement.one_of(key, "true") for key in SIMULATED]
    return (*pool.requirements, *fixed)
