"""The few values that random clusters use, so that their objects refer to one another."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, TypeVar

from core.model.plan import ObjectRef

T = TypeVar("T")

ZONES: Final = ("zone-a", "zone-b", "zone-c")
APPS: Final = ("web", "api", "db", "job")
NAMESPACES: Final = ("shop", "shop", "shop", "bank")
FAMILY: Final = "example.com/family"
NUMBER: Final = "example.com/number"
SPEED: Final = "example.com/speed"
TEAM: Final = "example.com/team"
TIER: Final = "example.com/tier"
GPU: Final = "nvidia.com/gpu"
DONGLE: Final = "example.com/dongle"
"""A resource that only a NodeOverlay gives."""

GIB: Final = 2**30
CLASS_REF: Final = ObjectRef("karpenter.k8s.aws", "EC2NodeClass", "default")


def chance(draw: Random, share: float) -> bool:
    """True in that share of cases."""
    return draw.random() < share


def some_of(draw: Random, items: Sequence[T]) -> tuple[T, ...]:
    """One or more of the items."""
    return tuple(draw.sample(items, draw.randint(1, len(items))))
