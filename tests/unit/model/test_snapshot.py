"""What a snapshot says about the stored target."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from core.model.snapshot import TARGET_AGE_MAX, Options, Snapshot
from tests.builders import NOW, a_stored_target

TARGET = a_stored_target("n1", "n2")


def test_nodes_that_the_target_drains_later_are_named_as_long_as_it_is_followed() -> None:
    """A target that nothing follows any more would keep pods away from nodes that stay."""
    snapshot = Snapshot(now=NOW + TARGET_AGE_MAX, stored_target=TARGET)
    assert snapshot.drained_later == {"n1", "n2"}
    later = msgspec.structs.replace(snapshot, now=snapshot.now + timedelta(seconds=1))
    assert later.drained_later == Snapshot(now=NOW).drained_later == frozenset()


def test_karpenters_policy_has_no_target() -> None:
    as_karpenter = Snapshot(now=NOW, stored_target=TARGET, options=Options(karpenter_moves_only=True))
    assert as_karpenter.drained_later == frozenset()
