"""Makes a claim from a NodePool's template alone, for no particular pod."""

from __future__ import annotations

from core import labels
from core.disruption.prices import ReplacementOptions
from core.labels import HASH_VERSION
from core.model.node_pool import NodePool
from core.model.plan import PlannedClaim
from core.model.snapshot import Snapshot
from core.pools.admitted_types import admitted_types
from core.pools.pool_template import SIMULATED, template_labels, template_requirements
from core.pools.pool_types import pool_types


def template_claim(pool: NodePool, snapshot: Snapshot) -> PlannedClaim | None:
    """Return a claim for any type that the template allows; None if none can be launched now."""
    asked = template_requirements(pool)
    types = pool_types(snapshot).of(pool.name)
    fitting = admitted_types(types, asked, snapshot.catalogue.label_keys())
    offerings = [o for t in fitting for o in t.offerings if o.available and o.requirements().conflict(asked) is None]
    claim = PlannedClaim(
        name=pool.name,
        node_pool=pool.name,
        node_class=pool.node_class,
        labels=template_labels(pool),
        annotations=_annotations(pool),
        taints=pool.taints,
        startup_taints=pool.startup_taints,
        requirements=tuple(r for r in asked.without(*SIMULATED, labels.NODEPOOL).values() if r.key not in pool.labels),
        zones=tuple(sorted({o.zone for o in offerings})),
        capacity_types=tuple(sorted({o.capacity_type for o in offerings})),
        expire_after=pool.expire_after,
        termination_grace_period=pool.termination_grace_period,
    )
    options = ReplacementOptions(claim, ()).with_types(fitting)
    return options.planned() if options.can_launch(snapshot.options.min_values_policy) else None


def _annotations(pool: NodePool) -> dict[str, str]:
    """Return the template's annotations, and its hash for the detection of drift."""
    if not pool.template_hash:
        return pool.annotations
    hashes = {labels.NODEPOOL_HASH: pool.template_hash, labels.NODEPOOL_HASH_VERSION: HASH_VERSION}
    return dict(sorted({**pool.annotations, **hashes}.items()))
