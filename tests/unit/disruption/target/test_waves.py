"""Waves are cut so that seats are final: a drained node never receives, and later waves find what earlier ones launched."""

from __future__ import annotations

from collections import Counter

from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.waves import WAVES_MAX, WaveCutter
from core.model.node_pool import Budget, Disruption
from tests.builders import a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import MIDDLE, ON_DEMAND, drifted, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import WHOLE_WAY, decided


def test_a_new_node_is_launched_once_and_filled_by_later_waves() -> None:
    pool = a_pool("default", ON_DEMAND, disruption=Disruption(budgets=(Budget("1"),)))
    nodes = [drifted(a_node_of(MIDDLE, f"n{n}")) for n in range(4)]
    pods = tuple(pod_on(f"n{n}", cpu="900m") for n in range(4))
    found = decided(DisruptionPass(world(*nodes, pods=pods, node_pools=(pool,), options=WHOLE_WAY)))
    launched = [claim.name for command in found for claim in command.replacements]
    assert [command.wave for command in found] == [1, 2, 3, 4]
    assert len(launched) == len(set(launched)) < 4
    born: set[str] = set()
    for command in found:
        born |= {claim.name for claim in command.replacements}
        assert {move.to for move in command.moves} <= born
    assert set(Counter(move.pod for command in found for move in command.moves).values()) == {1}


def test_the_number_of_waves_is_bounded() -> None:
    assert WAVES_MAX >= 300
    assert WaveCutter.commands.__kwdefaults__ == {"waves_max": WAVES_MAX}
