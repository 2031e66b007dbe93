"""NodeOverlay: prices and capacities by which users correct the catalogue."""

from __future__ import annotations

import msgspec

from core.model.pod import PodSpec
from core.model.values.requirements import Requirement


class NodeOverlay(msgspec.Struct, frozen=True, kw_only=True):
    """One overlay. `price` is absolute in nano-dollars; `price_adjustment` is a signed amount or percentage as written."""

    name: str
    requirements: tuple[Requirement, ...] = ()
    price: int | None = None
    price_adjustment: str | None = None
    capacity: dict[str, int] = {}
    weight: int = 0


class CapacityBuffer(msgspec.Struct, frozen=True, kw_only=True):
    """Room to keep free: how many pods of which shape. Its references are resolved before the snapshot.

    Attributes:
        requested: Names of its pods whose launch is in progress, so that they are not planned again.
    """

    namespace: str
    name: str
    uid: str = ""
    pods: int
    labels: dict[str, str] = {}
    spec: PodSpec
    requested: tuple[str, ...] = ()
