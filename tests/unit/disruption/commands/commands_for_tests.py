"""Commands for the tests of how they go together."""

from __future__ import annotations

from typing import Any

import msgspec

from core.model.plan import Command, Move, PlannedClaim
from core.model.pod import TopologySpread
from core.model.snapshot import Service, Snapshot
from tests.builders import CLASS_REF


def a_command(node: str, to: str, *types: str, **claim: Any) -> Command:
    fields = {"node_class": CLASS_REF, "node_pool": "default", "instance_types": types, **claim}
    replacements = (PlannedClaim(name=to, **fields),) if types else ()
    return Command(
        reason="Drifted",
        method="drift",
        nodes=(node,),
        claims=(node,),
        replacements=replacements,
        moves=(Move(f"default/on-{node}", to),),
    )


def a_deletion(node: str, to: str) -> Command:
    moves = (Move(f"default/on-{node}", to),)
    return Command(reason="Underutilized", method="single", nodes=(node,), claims=(node,), moves=moves)


def with_default_spread(snapshot: Snapshot, key: str) -> Snapshot:
    """The snapshot with a default spread along a key, for the pods of one Service."""
    service = Service(namespace="default", name="shop", selector={"of": "shop"})
    options = msgspec.structs.replace(snapshot.options, default_spreads=(TopologySpread(key, 1),))
    return msgspec.structs.replace(snapshot, services=(service,), options=options)
