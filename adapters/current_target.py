"""Reads the nodes that runs of `disrupt` will drain, so that `provision` plans pods there last.

See docs/engineering/handbook/planning.md.
"""

from __future__ import annotations

import msgspec

from adapters.store import Targets
from core import labels
from core.brakes import Action, EngagedBrakes
from core.disruption.target.move_price import settings_digest
from core.model.plan import StoredTarget
from core.model.snapshot import Snapshot


def current_target(targets: Targets, snapshot: Snapshot, brakes: EngagedBrakes) -> StoredTarget | None:
    """Return the stored target without the nodes that a brake keeps; None if no run follows it. Raises PortError."""
    if brakes.stopping(Action.DISRUPT) is not None:
        return None
    target = targets.read()
    if target is None or target.settings != settings_digest(snapshot):
        return None
    pool_of = {node.name: node.labels.get(labels.NODEPOOL, "") for node in snapshot.nodes}
    drains = [drain for drain in target.drains if brakes.stopping(Action.DISRUPT, pool_of.get(drain.node, "")) is None]
    return msgspec.structs.replace(target, drains=tuple(drains))
