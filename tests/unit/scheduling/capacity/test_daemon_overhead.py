"""The room that DaemonSets leave on a new node."""

from __future__ import annotations

from core import labels
from core.model.pod import NodeSelectorTerm
from core.model.policy import DaemonSet
from core.model.values.requirements import Requirement
from core.model.values.taints import NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint
from core.scheduling.capacity.daemon_overhead import daemon_pods
from core.scheduling.primitives.requirement_table import RequirementTable
from core.scheduling.primitives.resource_vector import ResourceAxis
from tests.builders import a_pod, a_pool, a_type
from tests.unit.scheduling.reading import context_of


def a_daemon_set(name: str, cpu: str, **spec: object) -> DaemonSet:
    return DaemonSet(namespace="default", name=name, spec=a_pod(cpu=cpu, memory="0", **spec).spec)


def test_only_types_that_get_the_pod_have_less_room() -> None:
    """Otherwise, a pod does not fit the node that was launched for it, or a larger one is launched without need."""
    only_b = (Requirement.one_of(labels.INSTANCE_TYPE, "b"),)
    daemons = (a_daemon_set("all", "500m"), a_daemon_set("some", "1", node_selector=only_b))
    context = context_of(types=(a_type("a", cpu="4"), a_type("b", cpu="4")), daemon_sets=daemons)
    (template,), cpu = context.templates, context.axis.names.index("cpu")
    assert [room[cpu] for room in template.types.room.vectors] == [3500, 2500]


def test_each_alternative_of_a_daemonsets_affinity_counts_on_every_type() -> None:
    """Karpenter drops an alternative that a type does not meet for all types that it looks at later."""
    either = tuple(NodeSelectorTerm((Requirement.one_of(labels.INSTANCE_TYPE, name),)) for name in ("a", "c"))
    types = tuple(a_type(name, cpu="4") for name in ("a", "b", "c", "d"))
    context = context_of(types=types, daemon_sets=(a_daemon_set("some", "1", required_terms=either),))
    (template,), cpu = context.templates, context.axis.names.index("cpu")
    assert [room[cpu] for room in template.types.room.vectors] == [3000, 4000, 3000, 4000]


def test_a_preference_against_pods_keeps_no_daemon_away() -> None:
    """The DaemonSet controller places its pods there, so room that is planned for others would be theirs."""
    daemons = (a_daemon_set("all", "500m"),)
    for effect, room in ((PREFER_NO_SCHEDULE, 3500), (NO_SCHEDULE, 4000)):
        pool = a_pool(taints=(Taint("dedicated", effect),))
        context = context_of(types=(a_type("a", cpu="4"),), node_pools=(pool,), daemon_sets=daemons)
        (template,), cpu = context.templates, context.axis.names.index("cpu")
        assert template.types.room.vectors[0][cpu] == room


def test_a_daemonset_that_needs_resource_claims_is_left_out() -> None:
    """Otherwise, room is kept for pods that are not planned for."""
    table = RequirementTable(labels.WELL_KNOWN)
    dra = a_daemon_set("gpu", "1", resource_claims=("gpu",))
    assert [d.source.name for d in daemon_pods((dra, a_daemon_set("a", "1")), ResourceAxis(["cpu"]), table)] == ["a"]
