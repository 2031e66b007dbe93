"""All constraints of one plan together."""

from __future__ import annotations

from core.model.pod import HostPort, Pod
from core.scheduling.constraints.constraint import Constraint
from core.scheduling.constraints.per_node import HostPorts
from core.scheduling.constraints.registry import CONSTRAINTS, reads_of
from tests.builders import a_pod, a_pool, a_type
from tests.unit.scheduling.reading import context_of, group_of


class ByName(Constraint):
    """A rule that goes by the pod's name."""

    @classmethod
    def reads(cls, pod: Pod) -> str:
        return pod.name


def test_only_the_constraints_that_concern_a_pod_are_asked_about_it() -> None:
    """Most pods have neither host ports nor volumes: asking for each of them would cost every plan."""
    pods = (a_pod("plain"), a_pod("port", host_ports=(HostPort(80),)))
    context = context_of(types=(a_type(),), pods=pods)
    constraints = context.plan_constraints(())
    assert constraints.concerning(group_of(context, "plain")) == ()
    assert [type(found) for found in constraints.concerning(group_of(context, "port"))] == [HostPorts]


def test_a_copy_reserves_for_itself() -> None:
    """Otherwise, a plan that is given up leaves its reservations in the next one."""
    context = context_of(types=(a_type(),), pods=(a_pod(),), node_pools=(a_pool(limits={"cpu": 4000}),))
    constraints = context.plan_constraints(())
    copied = constraints.copy()
    assert all(
        own is not other for own, other in zip(constraints.all, copied.all, strict=True) if own.copy() is not own
    )
    assert copied.limits is not constraints.limits
    assert copied.limits.remaining[0].left == constraints.limits.remaining[0].left == {"cpu": 4000}


def test_what_is_read_of_a_pod_is_kept_by_constraint() -> None:
    assert reads_of(CONSTRAINTS) is None, "otherwise each pod is read again for nothing"
    read = reads_of((*CONSTRAINTS, ByName))
    assert read is not None
    assert read(a_pod("p")) == ((ByName, "p"),)
