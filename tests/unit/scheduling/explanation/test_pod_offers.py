"""The price of a node for one pod."""

from __future__ import annotations

from core.model.values.requirements import Requirement
from core.scheduling.explanation.pod_offers import PodOffer, pod_offers
from tests.builders import a_pod, a_pool, a_type
from tests.unit.scheduling.reading import context_of, group_of


def test_every_suitable_pool_and_type_is_listed_cheapest_first() -> None:
    types = (
        a_type("small", cpu="2", price=0.1),
        a_type("mid", cpu="4", price=0.2),
        a_type("large", cpu="8", price=0.4),
    )
    pools = (a_pool("a"), a_pool("b", Requirement.one_of("team", "b")))
    context = context_of(types=types, node_pools=pools, pods=(a_pod("p", cpu="3"),))
    assert pod_offers(context, group_of(context, "p")) == [
        PodOffer(80_000_000, "a", "mid"),
        PodOffer(80_000_000, "b", "mid"),
        PodOffer(160_000_000, "a", "large"),
        PodOffer(160_000_000, "b", "large"),
    ]
