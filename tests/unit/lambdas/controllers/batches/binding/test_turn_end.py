"""What becomes of the pods that a turn left unbound: they wait for another turn, or kube-scheduler places them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from adapters.ports import ConflictError, DeniedError
from core.lifecycle.binding.turn import BindingTurn, DecidedBinding
from core.model.pod import Pod
from core.reasons.binding import BindingReason
from lambdas.controllers.batches.binding.binding_writer import REFUSALS, WrittenBindings
from lambdas.controllers.batches.binding.turn_end import TurnEnd, turn_end
from tests.builders import a_pod
from tests.unit.lifecycle.records_for_tests import a_node, a_plan, a_record

A, B = a_pod("a"), a_pod("b")
NODE = msgspec.structs.replace(a_node(), allocatable={"cpu": 1000})
RECORD = a_record(plan=a_plan(pods=(A.key, B.key, "default/gone")))


def binding(pod: Pod, claim: str = "c") -> DecidedBinding:
    return DecidedBinding(claim=claim, node="n", pod=pod)


def end(
    *decided: DecidedBinding,
    left: tuple[tuple[Pod, BindingReason], ...] = (),
    errors: dict[str, Any] | None = None,
    node: Any = NODE,
) -> TurnEnd:
    """The end of a turn in which these bindings were decided; each was written, unless it has an error here."""
    written = WrittenBindings()
    for one in decided:
        if (errors or {}).get(one.pod.key, None) != "not tried":
            written.note(one, (errors or {}).get(one.pod.key))
    turn = BindingTurn(bindings=decided, left={"c": left} if left else {})
    return turn_end(RECORD, node, turn, written, {A.key: A, B.key: B})


def test_all_pods_are_bound() -> None:
    assert end(binding(A), binding(B)) == TurnEnd()


@pytest.mark.parametrize(
    ("reason", "waits"),
    [
        (BindingReason.TOPOLOGY_SPREAD, True),
        (BindingReason.POD_AFFINITY, True),
        (BindingReason.BINDING_REFUSED, False),
    ],
)
def test_a_pod_that_waits_for_others_has_a_further_turn(reason: BindingReason, waits: bool) -> None:
    other = (B, BindingReason.BINDING_REFUSED)
    assert end(left=((A, reason),)) == TurnEnd(((A, reason),), may_go_on=waits)
    assert end(left=((A, reason), other)) == TurnEnd(((A, reason), other), may_go_on=waits)


def test_a_decided_binding_that_was_not_written_makes_another_turn_certain() -> None:
    """Its call failed, or the time was up: the next turn decides it again."""
    assert end(binding(A), errors={A.key: "not tried"}) == TurnEnd(
        ((A, BindingReason.TOPOLOGY_SPREAD),), may_go_on=True, is_again=True
    )


def test_a_binding_that_the_api_server_denies_is_left_to_the_scheduler() -> None:
    assert end(binding(A), errors={A.key: DeniedError("kube:bind", "no")}) == TurnEnd(
        ((A, BindingReason.BINDING_REFUSED),)
    )


def test_a_pod_that_somebody_else_has_bound_is_tried_again_until_it_is_seen() -> None:
    found = end(binding(A), errors={A.key: ConflictError("kube:bind", "it has a node")})
    assert found.is_again


def test_the_bindings_of_other_claims_are_theirs() -> None:
    assert end(binding(A, claim="other"), errors={A.key: "not tried"}) == TurnEnd()


def test_after_so_many_denials_nothing_more_of_the_claim_is_tried() -> None:
    pods = [a_pod(f"p{number}") for number in range(REFUSALS)]
    denied = {pod.key: DeniedError("kube:bind", "no") for pod in pods}
    left = ((A, BindingReason.TOPOLOGY_SPREAD),)
    found = end(*map(binding, pods), binding(B), left=left, errors={**denied, B.key: "not tried"})
    refused = tuple((pod, BindingReason.BINDING_REFUSED) for pod in (*pods, B))
    assert found == TurnEnd((*left, *refused))


def test_a_node_that_is_smaller_than_planned_gets_none_of_its_pods() -> None:
    small = msgspec.structs.replace(NODE, allocatable={"cpu": 999})
    both = ((A, BindingReason.SMALLER_THAN_PLANNED), (B, BindingReason.SMALLER_THAN_PLANNED))
    assert end(binding(A), node=small) == TurnEnd(both)
