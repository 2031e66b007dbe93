"""Rules by their domains, those of the cluster's defaults included."""

from __future__ import annotations

from core import labels
from core.disruption.commands.pod_rules import PodRules, selects_any
from core.model.pod import Pod, PodAffinityTerm, TopologySpread
from core.scheduling.pods.default_topology_spread import DefaultSpreads
from core.scheduling.topology.topology_group import Namespaces
from tests.builders import a_selector
from tests.unit.disruption.commands.commands_for_tests import with_default_spread
from tests.unit.disruption.nodes_for_tests import pod_on, world

WEB, DB = pod_on("web", labels={"app": "web"}), pod_on("db", labels={"app": "db"})


def rules_of(pod: Pod, default: str = "") -> PodRules:
    """The rules of a pod; `default` is the topology key of the cluster's default spread."""
    snapshot = world(pods=(pod, WEB, DB))
    snapshot = with_default_spread(snapshot, default) if default else snapshot
    return PodRules.of(pod, DefaultSpreads(snapshot), Namespaces.of(snapshot))


def test_rules_over_hosts_and_over_zones_are_apart() -> None:
    web, db = a_selector(app="web"), a_selector(app="db")
    rules = rules_of(
        pod_on(
            "a",
            spreads=(TopologySpread(labels.HOSTNAME, 1, selector=web), TopologySpread(labels.ZONE, 1, selector=db)),
            affinity=(PodAffinityTerm(labels.HOSTNAME, db), PodAffinityTerm(labels.ZONE, web)),
            anti_affinity=(PodAffinityTerm(labels.HOSTNAME, web), PodAffinityTerm(labels.ZONE, db)),
        )
    )
    asked = (rules.host_spreads, rules.host_affinity, rules.wide_spreads, rules.wide_affinity, rules.wide_anti_affinity)
    assert [selects_any(groups, (WEB,)) for groups in asked] == [True, False, False, True, False]
    assert [selects_any(groups, (DB,)) for groups in asked] == [False, True, True, False, True]
    assert selects_any(rules.wide, (WEB,))
    assert selects_any(rules.wide, (DB,))


def test_rules_that_need_not_hold_are_left_out() -> None:
    rules = rules_of(pod_on("a", spreads=(TopologySpread(labels.ZONE, 1, "ScheduleAnyway", a_selector(app="web")),)))
    assert not selects_any(rules.wide, (WEB, DB))


def test_the_default_spread_of_a_pod_counts() -> None:
    shop = pod_on("a", labels={"of": "shop"})
    assert selects_any(rules_of(shop, labels.ZONE).wide_spreads, (shop,))
    assert not rules_of(shop, labels.ZONE).host_spreads
    assert selects_any(rules_of(shop, labels.HOSTNAME).host_spreads, (shop,))
    assert not rules_of(WEB, labels.ZONE).wide
