"""A region's offerings at the start of a scenario: the built-in us-east-1, or a catalogue of the scenario's own."""

from __future__ import annotations

from pathlib import Path

import msgspec

from core.catalogue import document
from core.catalogue.shape import Shape
from core.errors import InvalidInputError
from core.model.catalogue import InstanceType
from simulator.market.embedded import builtin_catalogue, builtin_market, builtin_shapes
from simulator.market.node_facts import NodeFacts, recorded_facts, stated_facts

NAME = "us-east-1"


class Region(msgspec.Struct, frozen=True, kw_only=True):
    """Instance types with their offerings.

    Attributes:
        zone_ids: Zone ids by zone name, as far as known.
        shapes: EC2's own descriptions of the types; empty for a catalogue of the scenario's own, which has none.
        vcpu_quotas: Code of an EC2 quota → vCPUs that the account may run; others have no limit.
        is_recorded: Whether nodes have the sizes recorded from EC2's types; otherwise they have the sizes that the types state.
    """

    types: tuple[InstanceType, ...]
    zone_ids: dict[str, str] = {}
    shapes: tuple[Shape, ...] = ()
    name: str = NAME
    is_recorded: bool = False
    vcpu_quotas: dict[str, int] = {}

    @property
    def zones(self) -> tuple[str, ...]:
        """Every zone in which something is sold."""
        return tuple(sorted({offering.zone for found in self.types for offering in found.offerings}))

    def node_facts(self) -> dict[str, NodeFacts]:
        """Return instance type → the facts of its nodes."""
        facts_of = recorded_facts if self.is_recorded else stated_facts
        return {found.name: facts_of(found) for found in self.types}


def builtin_region() -> Region:
    """us-east-1 as it is built in."""
    return Region(
        types=builtin_catalogue(NAME).default,
        zone_ids=dict(builtin_market(NAME).zone_ids),
        shapes=builtin_shapes(),
        is_recorded=True,
    )


def read_region(catalogue: Path | None) -> Region:
    """The region that a scenario plays in.

    Raises:
        InvalidInputError: If its catalogue file cannot be read; names it.
    """
    if catalogue is None:
        return builtin_region()
    try:
        raw = catalogue.read_bytes()
        return Region(types=document.decode(raw).default, vcpu_quotas=document.vcpu_quotas(raw))
    except OSError as error:
        raise InvalidInputError(f"cannot be read: {error.strerror or error}", subject=str(catalogue)) from error
    except InvalidInputError as error:
        raise InvalidInputError(str(error), subject=str(catalogue)) from error
