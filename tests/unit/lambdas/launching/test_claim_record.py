"""The launch order that EC2 gets from a claim's record."""

from __future__ import annotations

import msgspec

from core.api.schemas.ec2_node_class import TAGS_MAX
from core.catalogue.node_class import read_node_class
from core.launch.template import ownership_tags
from core.lifecycle.rebuilding import HASHES
from core.lifecycle.records import ClaimRecord
from core.scheduling import schedule
from lambdas.controllers.launching.claim_record import order_of, requested
from tests.builders import NOW, a_pod, a_pool, a_snapshot, a_type

EC2_TAGS_MAX = 50


def test_a_class_with_as_many_tags_as_it_may_have_is_launched() -> None:
    """Otherwise, EC2 would refuse every launch of a class that is valid."""
    snapshot = a_snapshot(types=(a_type(),), node_pools=(a_pool("default"),), pods=(a_pod(),))
    (planned,) = schedule(snapshot).claims
    planned = msgspec.structs.replace(planned, annotations=dict.fromkeys(HASHES, "x"))
    record = requested(planned, "default-1", "token", snapshot, NOW)
    assert isinstance(record, ClaimRecord)
    order = order_of(record, {}, snapshot.catalogue, cluster="shop")
    node_class = read_node_class({"metadata": {"name": "default"}})
    own = {"Name": "", **order.tags, **ownership_tags(node_class, cluster="shop", node_pool="default")}
    assert len(own) + TAGS_MAX == EC2_TAGS_MAX
