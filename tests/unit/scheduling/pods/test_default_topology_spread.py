"""The cluster's default spreads."""

from __future__ import annotations

from core import labels
from core.model.pod import TopologySpread
from core.model.snapshot import Options
from core.scheduling.pods.default_topology_spread import DefaultSpreads
from tests.builders import a_pod, a_selector, a_snapshot

DEFAULT = TopologySpread(topology_key=labels.ZONE, max_skew=5, selector=None)


def test_own_spreads_win_and_unselected_pods_get_none() -> None:
    """Otherwise, the plan spreads pods that kube-scheduler does not."""
    own = TopologySpread(topology_key=labels.HOSTNAME, max_skew=1, selector=a_selector(app="web"))
    spreads = DefaultSpreads(a_snapshot(options=Options(default_spreads=(DEFAULT,))))
    assert spreads.of(a_pod(spreads=(own,))) == (own,)
    assert spreads.of(a_pod()) == ()
