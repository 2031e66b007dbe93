"""Which groups select which pods."""

from __future__ import annotations

from core import labels
from core.model.pod import PodAffinityTerm
from core.scheduling.topology.group_selection import GroupSelection
from core.scheduling.topology.topology_group import INVERSE, TopologyGroup
from tests.builders import a_pod, a_selector, a_type
from tests.unit.scheduling.reading import context_of, group_of


def test_the_index_agrees_with_checking_each_group() -> None:
    """Otherwise, a rule misses pods that it selects."""
    apart = PodAffinityTerm(labels.ZONE, a_selector(app="db"))
    pods = (a_pod("web", labels={"app": "web"}, anti_affinity=(apart,)), a_pod("db", labels={"app": "db"}))
    context = context_of(types=(a_type(),), pods=pods)
    for name in ("web", "db"):
        signature = group_of(context, name).signature
        expected = [n for n, g in enumerate(context.topology.groups) if g.selects("default", signature.labels)]
        assert list(signature.selected_by) == expected
    db, web = group_of(context, "db").signature, group_of(context, "web").signature
    assert [context.topology.groups[n].kind for n in db.repelled_by] == [INVERSE]
    assert (web.avoids, db.domain_keys) == (db.repelled_by, (labels.ZONE,))


def test_a_group_without_a_selector_selects_no_pod() -> None:
    """Otherwise, a term without a labelSelector keeps every pod away (in Kubernetes, it matches none)."""
    selected: list[list[object]] = [[]]
    context = context_of(types=(a_type(),), pods=(a_pod("p"),))
    signature = group_of(context, "p").signature
    GroupSelection([TopologyGroup(INVERSE, labels.ZONE, None, None)], set()).assign([signature], selected)
    assert (signature.selected_by, selected) == ((), [[]])
