"""Queries over all nodes at once."""

from __future__ import annotations

from core import labels
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, Taint, Toleration
from core.scheduling.capacity.node_index import NodeIndex
from tests.builders import ZONES, a_node_of, a_type
from tests.unit.scheduling.reading import context_of

TYPE = a_type("m", cpu="4")


def test_suitable_nodes_agree_with_checking_each() -> None:
    """Otherwise, a pod is placed on a node that does not meet its requirements."""
    plain = a_node_of(TYPE, "n0", zone=ZONES[0])
    tainted = a_node_of(TYPE, "n1", zone=ZONES[1], taints=(Taint("team", NO_SCHEDULE, "a"),))
    context = context_of(types=(TYPE,), nodes=(plain[1], tainted[1]), node_claims=(plain[0], tainted[0]))
    table = context.table
    index = NodeIndex(context.existing_nodes, table)
    anywhere = table.conjunction(())
    second = table.conjunction((Requirement.one_of(labels.ZONE, ZONES[1]),))
    tolerant = (Toleration(key="team", operator="Exists"),)
    assert [node.name for node in index.nodes] == ["n0", "n1"]
    assert (index.suitable((anywhere,), ()), index.suitable((anywhere,), tolerant)) == (0b01, 0b11)
    assert (index.suitable((second,), tolerant), index.suitable((second,), ())) == (0b10, 0)
    assert dict(index.domains(labels.ZONE)) == {ZONES[0]: 0b01, ZONES[1]: 0b10}
    assert list(index.values("absent")) == [None, None]
    assert index.with_room(context.existing_nodes[0].free) == 0b11


def test_every_node_with_a_label_suits_pods_that_need_it() -> None:
    """Otherwise, a node with room stays unused, and another is launched."""
    pairs = [a_node_of(TYPE, f"n{number}", zone=ZONES[number]) for number in range(3)]
    context = context_of(types=(TYPE,), nodes=tuple(node for _, node in pairs), node_claims=tuple(c for c, _ in pairs))
    index = NodeIndex(context.existing_nodes, context.table)
    exists = Requirement.of(labels.ZONE, "Exists")
    elsewhere = context.table.conjunction((exists, Requirement.of(labels.ZONE, "NotIn", ["zone-x"])))
    not_first = context.table.conjunction((exists, Requirement.of(labels.ZONE, "NotIn", [ZONES[0]])))
    unknown = context.table.conjunction((Requirement.of("team", "Exists"), Requirement.of("team", "NotIn", ["red"])))
    assert index.suitable((elsewhere,), ()) == 0b111
    assert index.suitable((not_first,), ()) == 0b110
    assert index.suitable((unknown,), ()) == 0
