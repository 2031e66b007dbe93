"""Hostname rules of the items on one node."""

from __future__ import annotations

from core.scheduling.optimization.items.packing_item import HostnameRuleState, PackingItem

GROUP = 7
COUNTED_WITH_RULE = PackingItem((1,), 0, 1, counted=((GROUP, 1),), caps=((GROUP, 1),))
COUNTED = PackingItem((1,), 0, 1, counted=((GROUP, 1),))
WITH_RULE = PackingItem((1,), 0, 1, caps=((GROUP, 0),))


def test_a_rule_holds_in_any_order_of_pods() -> None:
    """kube-scheduler binds pods in its own order; if a plan depends on one, some of them stay pending."""
    crowded, alone = HostnameRuleState(), HostnameRuleState()
    for item in (COUNTED, COUNTED):
        assert crowded.admits(item)
        crowded.add(item)
    assert not crowded.admits(COUNTED_WITH_RULE)
    assert not crowded.admits(WITH_RULE)
    alone.add(WITH_RULE)
    assert alone.admits(WITH_RULE)
    assert not alone.admits(COUNTED)


def test_the_strictest_of_several_caps_counts() -> None:
    node = HostnameRuleState()
    for cap in (3, 1, 2):
        node.add(PackingItem((1,), 0, 1, caps=((GROUP, cap),)))
    node.add(COUNTED)
    assert not node.admits(COUNTED)
