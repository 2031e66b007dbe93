"""Claims made from a template alone, without pods."""

from __future__ import annotations

import msgspec
import pytest

from core import labels
from core.disruption.static_capacity.template_claim import template_claim
from core.model.catalogue import Catalogue
from core.model.snapshot import BEST_EFFORT, STRICT, Options
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


def test_a_type_without_a_label_that_is_demanded_is_not_among_them() -> None:
    """Otherwise, a static NodePool of GPUs launches the cheapest machine without one."""
    key = f"{labels.AWS_GROUP}/instance-gpu-count"
    gpu = msgspec.structs.replace(TYPES[-1], labels={**TYPES[-1].labels, key: ("1",)})
    pool = a_pool("default", Requirement.of(key, "Gt", ["0"]), replicas=1)
    snapshot = world(node_pools=(pool,))
    snapshot = msgspec.structs.replace(snapshot, catalogue=Catalogue(default=(*TYPES[:-1], gpu)))
    claim = template_claim(pool, snapshot)
    assert claim is not None
    assert claim.instance_types == (gpu.name,)


@pytest.mark.parametrize(("policy", "is_made"), [(STRICT, False), (BEST_EFFORT, True)])
def test_types_that_do_not_meet_min_values_are_not_launched(policy: str, is_made: bool) -> None:
    """EC2 would get fewer types to choose from than the NodePool demands; Karpenter's launch refuses such a claim."""
    many = Requirement.of(labels.INSTANCE_TYPE, "Exists", min_values=len(TYPES) + 1)
    pool = a_pool("default", ON_DEMAND, many, replicas=1)
    options = Options(min_values_policy=policy)
    assert (template_claim(pool, world(node_pools=(pool,), options=options)) is not None) is is_made
