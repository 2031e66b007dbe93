"""What a snapshot says about the stored target."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from core.model.plan import StoredDrain, StoredTarget
from core.model.snapshot import TARGET_AGE_MAX, Options, Snapshot
from tests.builders import NOW

DRAINS = (StoredDrain("n1", 1, 1), StoredDrain("n2", 1, 1))
TARGET = StoredTarget(made_at=NOW, settings="", drains=DRAINS, kept_price=0, drained_price=2, new_price=0)


def test_nodes_that_the_target_drains_later_are_named_as_long_as_it_is_followed() -> None:
    """A target that nothing follows any more would keep pods away from nodes that stay."""
    snapshot = Snapshot(now=NOW + TARGET_AGE_MAX, stored_target=TARGET)
    assert snapshot.drained_later == {"n1", "n2"}
    later = msgspec.structs.replace(snapshot, now=snapshot.now + timedelta(seconds=1))
    assert later.drained_later == Snapshot(now=NOW).drained_later == frozenset()


def test_karpenters_policy_has_no_target() -> None:
    as_karpenter = Snapshot(now=NOW, stored_target=TARGET, options=Options(karpenter_moves_only=True))
    assert as_karpenter.drained_later == frozenset()
