"""Decides the end of a turn of binding for one claim: the pods that are left, and whether they wait for a further turn."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from core.lifecycle.binding.admission import AWAITS_OTHERS
from core.lifecycle.binding.eligibility import covers_plan
from core.lifecycle.binding.turn import BindingTurn
from core.lifecycle.records import ClaimRecord
from core.model.node import Node
from core.model.pod import Pod
from core.reasons.binding import BindingReason
from lambdas.controllers.batches.binding.binding_writer import WrittenBindings


class TurnEnd(msgspec.Struct, frozen=True):
    """The result of a turn for one claim.

    Attributes:
        left: Unbound pods, with the objection of each.
        may_go_on: Whether one of them waits for a further turn.
        is_again: Whether a decided binding was not written, so that another turn is certain.
    """

    left: tuple[tuple[Pod, BindingReason], ...] = ()
    may_go_on: bool = False
    is_again: bool = False


def turn_end(
    record: ClaimRecord,
    node: Node,
    turn: BindingTurn,
    written: WrittenBindings,
    waiting: Mapping[str, Pod],
) -> TurnEnd:
    """Return the end of a turn for a claim. `waiting`: the unbound pods by key."""
    if not covers_plan(record, node):
        pods = [waiting[key] for key in record.plan.pods if key in waiting]
        return TurnEnd(tuple((pod, BindingReason.SMALLER_THAN_PLANNED) for pod in pods))
    done = {binding.pod.key for binding in written.bound}
    unwritten = [
        binding.pod for binding in turn.bindings if binding.claim == record.name and binding.pod.key not in done
    ]
    left = turn.left.get(record.name, ())
    refusals = written.refusals.get(record.name, {})
    refused = tuple((pod, BindingReason.BINDING_REFUSED) for pod in unwritten if pod.key in refusals)
    again = tuple((pod, BindingReason.TOPOLOGY_SPREAD) for pod in unwritten if pod.key not in refusals)
    if written.is_refused(record.name):
        return TurnEnd((*left, *((pod, BindingReason.BINDING_REFUSED) for pod in unwritten)))
    waits = any(reason in AWAITS_OTHERS for _, reason in left)
    return TurnEnd((*left, *refused, *again), may_go_on=waits or bool(again), is_again=bool(again))
