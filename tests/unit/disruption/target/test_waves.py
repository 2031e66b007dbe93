"""Places are final: a drained node never receives pods, and later waves use what earlier ones launched."""

from __future__ import annotations

from collections import Counter

import msgspec

from core import labels
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.waves import WAVES_MAX, WaveCutter
from core.model.node_pool import Budget, Disruption
from core.model.snapshot import Options
from tests.builders import a_node_of, a_pool
from tests.unit.disruption.nodes_for_tests import LARGE, MIDDLE, ON_DEMAND, OPEN, SMALL, drifted, pod_on, world
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


def test_a_spot_node_with_few_types_goes_together_with_another() -> None:
    """Alone it needs fifteen types to choose from; merged with a deleted node, two nodes become one, which needs none."""
    pairs = [a_node_of(LARGE, "spot", capacity_type=labels.SPOT), a_node_of(SMALL, "a"), a_node_of(SMALL, "b")]
    stays = pod_on("b", "stays", cpu="100m", annotations={labels.DO_NOT_DISRUPT: "true"})
    pods = (pod_on("spot", cpu="3950m"), pod_on("a", cpu="200m"), stays)
    gates = msgspec.structs.replace(Options().feature_gates, spot_to_spot_consolidation=True)
    pool = a_pool("default", disruption=OPEN)
    options = Options(ignore_budgets=True, feature_gates=gates)
    found = decided(DisruptionPass(world(*pairs, pods=pods, node_pools=(pool,), options=options)))
    assert sorted(node for command in found for node in command.nodes) == ["a", "spot"]
    assert [sorted(command.nodes) for command in found if command.replacements] == [["a", "spot"]]
