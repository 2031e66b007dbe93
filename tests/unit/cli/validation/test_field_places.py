"""Where a misplaced field of our objects belongs: in one place only, or nowhere."""

from __future__ import annotations

import pytest

from cli.validation.field_places import right_place
from tests.unit.api.objects import NODE_CLASS, NODE_OVERLAY, NODE_POOL


@pytest.mark.parametrize(
    ("obj", "location", "place"),
    [
        (NODE_POOL, ("spec", "expireAfter"), "spec.template.spec.expireAfter"),
        (NODE_POOL, ("spec", "template", "spec", "weight"), "spec.weight"),
        (NODE_POOL, ("spec", "budgets"), "spec.disruption.budgets"),
        (NODE_POOL, ("spec", "nodes"), ""),  # a field of the entries of a list
        (NODE_POOL, ("spec", "ttlSecondsUntilExpired"), "spec.template.spec.expireAfter"),
        (NODE_POOL, ("spec", "template", "spec", "userData"), "spec.userData of the EC2NodeClass"),
        (NODE_POOL, ("spec", "kubelet"), "spec.kubelet of the EC2NodeClass"),
        (NODE_POOL, ("spec", "template", "spec", "nodeClassRef", "apiVersion"), "group"),
        (NODE_POOL, ("spec", "key"), ""),
        (NODE_POOL, ("spec", "whatever"), ""),
        (NODE_POOL, ("spec", "spec"), "spec.template.spec"),
        (NODE_CLASS, ("spec", "weight"), "spec.weight of the NodePool"),
        (NODE_CLASS, ("spec", "maxPods"), "spec.kubelet.maxPods"),
        (NODE_CLASS, ("spec", "amiSelector"), "spec.amiSelectorTerms"),
        (NODE_CLASS, ("spec", "labels"), "spec.template.metadata.labels of the NodePool"),
        (NODE_OVERLAY, ("spec", "userData"), ""),
        ({**NODE_POOL, "apiVersion": "example.com/v1"}, ("spec", "expireAfter"), ""),
    ],
)
def test_the_one_place_where_a_field_belongs(obj: dict[str, object], location: tuple[str, ...], place: str) -> None:
    assert right_place(obj, location) == place
