"""Nodes are compared with what NodePools and EC2NodeClasses are now, whatever their own annotations say yet."""

from __future__ import annotations

from adapters.observation.current_hashes import with_current_class_hash, with_current_pool_hash
from core import labels
from core.model.node_pool import NodeClass
from tests.builders import a_pool

OLD = {"note": "x", labels.NODEPOOL_HASH: "old", labels.NODECLASS_HASH: "old"}


def test_a_pool_has_its_present_hash_beside_its_other_annotations() -> None:
    found = with_current_pool_hash(a_pool(template_hash="new", own_annotations=OLD)).own_annotations
    assert found == {**OLD, labels.NODEPOOL_HASH: "new", labels.NODEPOOL_HASH_VERSION: labels.HASH_VERSION}
    without = a_pool(own_annotations=OLD)
    assert with_current_pool_hash(without) is without


def test_a_class_has_its_present_hash_beside_its_other_annotations() -> None:
    found = with_current_class_hash(NodeClass(name="a", spec_hash="new", own_annotations=OLD)).own_annotations
    assert found == {**OLD, labels.NODECLASS_HASH: "new", labels.NODECLASS_HASH_VERSION: labels.HASH_VERSION}
    without = NodeClass(name="a", own_annotations=OLD)
    assert with_current_class_hash(without) is without
