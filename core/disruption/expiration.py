"""Claims that have outlived `expireAfter`. Forceful: no budget, no simulation; draining still respects the pods' own rules."""

from __future__ import annotations

from core.model.snapshot import Snapshot


def expired(snapshot: Snapshot) -> tuple[str, ...]:
    """Names of the claims whose time is up and that are not going yet, oldest first, ties by name.

    The claim's own `expireAfter` counts, not what its NodePool says today (Karpenter).
    """
    due = [
        (claim.created_at + claim.expire_after, claim.name)
        for claim in snapshot.node_claims
        if claim.expire_after is not None
        and claim.created_at is not None
        and claim.deleted_at is None
        and claim.name not in snapshot.marked_for_deletion
    ]
    return tuple(name for at, name in sorted(due) if at <= snapshot.now)
