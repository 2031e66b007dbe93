"""Removes instances with our claim tag for which no claim can be rebuilt: after a delay, drained, and few at a time.

Many unknown instances at once are probably a mistake: the table of another cluster, NodePools deleted by mistake, an API server
that answers with an empty list. Then no instance is terminated, and voluntary disruption stops until fewer are unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import msgspec

from adapters.brakes.ports import Brakes, HeldBrakes, skipped
from adapters.messages import wake_up, work_on_claim
from adapters.ports import FunctionQueues
from adapters.store import ClaimStore
from core import labels
from core.brakes.brake import Action, Brake, BrakeKind
from core.lifecycle.claims import REGISTRATION_TIMEOUT
from core.lifecycle.records import ClaimPhase, Deletion
from core.reasons.decision import DecisionKind
from core.reasons.termination import TerminationReason
from installation.metric_names import SWEEP_BRAKE, UNKNOWN_INSTANCES
from lambdas.controllers.sweeps.instances.rebuilding import Rebuilding
from lambdas.controllers.sweeps.instances.unclaimed import UnclaimedInstance
from lambdas.controllers.sweeps.sweep import ReconcileRound

UNKNOWN_AFTER: Final = REGISTRATION_TIMEOUT + timedelta(minutes=5)
"""The age from which an instance is unknown.

A younger one may still join: until `REGISTRATION_TIMEOUT` its claim is rebuilt without its node.
"""

SHARE_PERCENT: Final = 5
"""The share of the fleet's instances, rounded down but at least one, that may be removed or considered gone in a round."""


class UnknownInstances:
    """Removes unknown instances, or engages the brake."""

    def __init__(
        self,
        rebuilding: Rebuilding,
        claims: ClaimStore,
        brakes: Brakes,
        *,
        held: HeldBrakes,
        queues: FunctionQueues,
    ) -> None:
        self._rebuilding = rebuilding
        self._claims = claims
        self._brakes = brakes
        self._held = held
        self._wake_ups, self._work = queues.wake_ups, queues.work

    def settle(self, unknown: Sequence[UnclaimedInstance], fleet: int, round_: ReconcileRound) -> None:
        """Remove them if they are few among the `fleet` of tagged instances; otherwise engage the brake."""
        report = round_.report
        report.count(UNKNOWN_INSTANCES, len(unknown))
        may_end = max(1, fleet * SHARE_PERCENT // 100)
        if len(unknown) > may_end:
            brake = _brake(unknown, fleet, may_end)
            report.count(SWEEP_BRAKE)
            skipped(brake, f"{len(unknown)} instances", report)
            if brake not in self._held.held():
                self._held.hold(brake, round_.clock.now())
            return
        if any(held.kind is BrakeKind.UNKNOWN_INSTANCES for held in self._held.held()):
            self._held.release(BrakeKind.UNKNOWN_INSTANCES)
            report.decide(
                DecisionKind.ABANDON, "brake", BrakeKind.UNKNOWN_INSTANCES, f"{len(unknown)} instances are unknown"
            )
            return
        brakes = self._brakes.engaged()
        stopping = brakes.stopping(Action.END_UNKNOWN)
        if stopping is not None and unknown:
            skipped(stopping, f"{len(unknown)} instances", report)
            return
        free = [found for found in unknown if brakes.stopping(Action.END_UNKNOWN, _pool_of(found)) is None]
        round_.each(free, lambda found: self._end(found, round_), subject=lambda found: found.instance.instance_id)

    def _end(self, found: UnclaimedInstance, round_: ReconcileRound) -> None:
        """Store a claim that is to be removed; it is then drained like any other, if it has a node."""
        now, instance = round_.clock.now(), found.instance
        record = self._rebuilding.record(f"unknown-{instance.instance_id}", found, round_.view)
        going = msgspec.structs.replace(
            record,
            phase=ClaimPhase.REGISTERED if found.node is not None else ClaimPhase.LAUNCHED,
            node_name=found.node.name if found.node is not None else "",
            deletion=Deletion(reason=TerminationReason.UNKNOWN_INSTANCE, message=found.problem, asked_at=now),
            reserved={},
        )
        if self._claims.restore(going) is None:
            return
        round_.report.decide(
            DecisionKind.TERMINATE, instance.instance_id, TerminationReason.UNKNOWN_INSTANCE, found.problem
        )
        self._work.send([work_on_claim(going.name, now)])
        self._wake_ups.send([wake_up(TerminationReason.UNKNOWN_INSTANCE)])


def _pool_of(found: UnclaimedInstance) -> str:
    return found.instance.tags.get(labels.NODEPOOL, "")


def _brake(unknown: Sequence[UnclaimedInstance], fleet: int, may_end: int) -> Brake:
    """Return the brake; its text is equal for equal unknown instances, so that it is written once."""
    first = unknown[0]
    return Brake(
        BrakeKind.UNKNOWN_INSTANCES,
        f"{len(unknown)} of {fleet} instances with our tag have no claim, and at most {may_end} are terminated at once: "
        f"for example {first.instance.instance_id}: {first.problem}. Nothing is terminated until there are fewer. Check that "
        "TABLE_NAME names this cluster's table and that the NodePools exist; terminate instances that nothing uses yourself",
    )
