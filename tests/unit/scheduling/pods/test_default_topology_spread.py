"""The cluster's default spreads."""

from __future__ import annotations

import msgspec
import pytest

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


@pytest.mark.parametrize(("rule", "reads"), [("ScheduleAnyway", 0), ("DoNotSchedule", 1)])
def test_services_are_read_for_required_constraints_only_if_a_default_is_one(
    rule: str, reads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, each pod that moves is compared with every Service of the cluster."""
    default = msgspec.structs.replace(DEFAULT, when_unsatisfiable=rule)
    own = tuple(TopologySpread(labels.HOSTNAME, 1, way, a_selector()) for way in ("DoNotSchedule", "ScheduleAnyway"))
    spreads = DefaultSpreads(a_snapshot(options=Options(default_spreads=(default,))))
    asked: list[str] = []
    monkeypatch.setattr(DefaultSpreads, "_selector", lambda _, pod: asked.append(pod.name) or a_selector(app="web"))
    required = (msgspec.structs.replace(default, selector=a_selector(app="web")),) * reads
    assert spreads.required_of(a_pod()) == required
    assert len(asked) == reads
    assert spreads.required_of(a_pod(spreads=own)) == own[:1]
