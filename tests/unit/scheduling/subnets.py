"""EC2NodeClasses with subnets for tests of plans."""

from __future__ import annotations

from core.model.node_pool import NodeClass
from tests.builders import ZONES

A, B, C = ZONES[:3]


def a_class(*subnets: tuple[str, str], name: str = "default", each: int = 1) -> NodeClass:
    """A class with these subnets (id, zone): by default one for each of three zones."""
    subnet_zones = subnets or (("subnet-a", A), ("subnet-b", B), ("subnet-c", C))
    return NodeClass(name=name, subnets=subnet_zones, addresses_per_node=each)
