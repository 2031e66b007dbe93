"""Claims made from a template alone, without pods."""

from __future__ import annotations

from core import labels
from core.disruption.static_capacity.template_claim import template_claim
from core.model.values.requirements import Requirement
from tests.builders import a_pool
from tests.unit.disruption.nodes_for_tests import ON_DEMAND, TYPES, world


def test_it_has_every_type_that_the_template_allows_and_its_hash() -> None:
    """Without the hash, a later change of the template cannot be detected on the node."""
    pool = a_pool("default", ON_DEMAND, replicas=1, template_hash="h")
    claim = template_claim(pool, world(node_pools=(pool,)))
    assert claim is not None
    assert claim.instance_types == tuple(found.name for found in TYPES)
    assert (claim.annotations[labels.NODEPOOL_HASH], claim.pods) == ("h", ())


def test_there_is_none_if_no_type_fits() -> None:
    pool = a_pool("default", Requirement.one_of(labels.INSTANCE_TYPE, "no-such"), replicas=1)
    assert template_claim(pool, world(node_pools=(pool,))) is None
