"""Defines all brakes and what each of them stops, in one table that is checked before any action begins.

A brake stops what has not begun. A node that is being drained when a brake engages is drained to the end, except under the
kill switch's `stop`, which stops evictions and terminations too.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

from core.reasons.code import BUDGETED, ReasonCode, TerminationReason


class Action(StrEnum):
    """An action that a brake can stop."""

    LAUNCH = "launch"
    DISRUPT = "disrupt"
    EXPIRE = "expire"
    REPAIR = "repair"
    DELETED_POOL = "deleted-pool"
    END_UNKNOWN = "end-unknown"
    EVACUATE = "evacuate"
    DRAIN = "drain"


ACTIONS: Final[Mapping[Action, str]] = MappingProxyType(
    {
        Action.LAUNCH: "Claims for pending pods, and the launch of their instances.",
        Action.DISRUPT: "Consolidation and drift: deciding, verifying and starting a command.",
        Action.EXPIRE: "Removing nodes older than expireAfter, outside their hours, or days before AWS retires their instance.",
        Action.REPAIR: "Replacing unhealthy nodes.",
        Action.DELETED_POOL: "Removing nodes whose NodePool is gone.",
        Action.END_UNKNOWN: "Terminating instances that have our tags but no claim.",
        Action.EVACUATE: "Removing nodes that end anyway: interrupted, deleted by a user, or without an instance.",
        Action.DRAIN: "Evictions from a node whose drain has begun, and its termination.",
    }
)
"""Action → its description in one sentence."""


class BrakeKind(ReasonCode):
    """Every brake; the value is the reason code that decisions and conditions carry."""

    STOP = (
        "KillSwitchStop",
        "The kill switch says stop: nothing is launched, disrupted, drained or terminated.",
        "Set the kill switch's parameter to `run` when the cause is removed.",
    )
    PAUSE = (
        "KillSwitchPause",
        "The kill switch says pause-disruption: pods still get nodes, no node is disrupted voluntarily.",
        "Set the kill switch's parameter to `run` when the cause is removed.",
    )
    UNREADABLE = (
        "BrakeUnreadable",
        "A brake cannot be read, so it counts as engaged: no node is disrupted voluntarily.",
        "Check the function's permissions and its network path to SSM and CloudWatch.",
    )
    ALARM = (
        "AlarmActive",
        "One of the CloudWatch alarms that pause disruption is in ALARM, or does not exist.",
        "Resolve the cause of the alarm.",
    )
    ZONAL_SHIFT = (
        "ZonalShift",
        "Traffic is shifted away from a zone: no node is disrupted voluntarily, and none is launched there.",
        "Nothing: it ends with the shift.",
    )
    OBSERVED = (
        "NodePoolObserved",
        "The NodePool is only observed: nothing is launched, disrupted, drained or terminated for it.",
        "Remove the NodePool's annotation fleetwright.dev/mode.",
    )
    POOL_BREAKER = (
        "NodePoolBreakerOpen",
        "New nodes of the NodePool do not join, so its working nodes are kept.",
        "Find out why new nodes do not join; the breaker closes when one does.",
    )
    POOL_PROBE = (
        "NodePoolBreakerHalfOpen",
        "New nodes of the NodePool did not join; one command at a time is started as a test.",
        "Nothing: a node that joins closes the breaker.",
    )
    SHRINKING = (
        "NodePoolShrinking",
        "The NodePool has lost so much of its capacity within an hour that its other nodes with pods stay for now.",
        "Nothing if the fleet is to shrink: it goes on by itself. If not, pause disruption and find out why nodes are removed.",
    )
    FOREIGN_INSTANCES = (
        "ForeignInstances",
        "Too many instances have this cluster's tags, but no claim, and no node or copied tags: none of them is terminated.",
        "Read the message: terminate those that nothing uses, or take the tag fleetwright.dev/claim off them.",
    )
    UNKNOWN_INSTANCES = (
        "UnknownInstances",
        "Too many instances have no claim: the table may be lost, so nothing is terminated.",
        "Read the message: check the table and the NodePools.",
    )


_VOLUNTARY: Final = (Action.DISRUPT, Action.EXPIRE, Action.REPAIR)

STOPS: Final[Mapping[BrakeKind, tuple[Action, ...]]] = MappingProxyType(
    {
        BrakeKind.STOP: tuple(Action),
        BrakeKind.PAUSE: (*_VOLUNTARY, Action.END_UNKNOWN),
        BrakeKind.UNREADABLE: (*_VOLUNTARY, Action.END_UNKNOWN),
        BrakeKind.ALARM: (*_VOLUNTARY, Action.END_UNKNOWN),
        BrakeKind.ZONAL_SHIFT: (*_VOLUNTARY, Action.END_UNKNOWN),
        BrakeKind.OBSERVED: tuple(Action),
        BrakeKind.POOL_BREAKER: _VOLUNTARY,
        BrakeKind.POOL_PROBE: (Action.EXPIRE, Action.REPAIR),
        BrakeKind.SHRINKING: (Action.DISRUPT,),
        BrakeKind.FOREIGN_INSTANCES: (Action.END_UNKNOWN,),
        BrakeKind.UNKNOWN_INSTANCES: (*_VOLUNTARY, Action.DELETED_POOL, Action.END_UNKNOWN),
    }
)
"""Brake → the actions that it stops. Actions not listed continue."""


class Brake(msgspec.Struct, frozen=True, order=True):
    """An engaged brake.

    Attributes:
        kind: The brake.
        message: What engaged it, and what releases it, for people.
        node_pool: The only NodePool concerned; empty: all.
        zone: Name or id of the zone in which nothing may be launched; empty: no restriction.
    """

    kind: BrakeKind
    message: str
    node_pool: str = ""
    zone: str = ""

    def stops(self, action: Action, node_pool: str = "") -> bool:
        """Whether it stops `action` for the nodes of `node_pool`; without one, for the nodes of all NodePools."""
        return action in STOPS[self.kind] and self.node_pool in ("", node_pool)


class EngagedBrakes(msgspec.Struct, frozen=True):
    """All brakes that are engaged at one moment, in the order of their kinds."""

    brakes: tuple[Brake, ...] = ()

    def stopping(self, action: Action, node_pool: str = "") -> Brake | None:
        """Return the first brake that stops `action` for nodes of `node_pool` (without one, of all pools); None: continue."""
        return next((brake for brake in self.brakes if brake.stops(action, node_pool)), None)

    def without(self, kind: BrakeKind) -> EngagedBrakes:
        """Return the brakes of other kinds."""
        return EngagedBrakes(tuple(brake for brake in self.brakes if brake.kind is not kind))

    @property
    def probed_pools(self) -> frozenset[str]:
        """NodePools of which only one disruption command at a time may be in progress."""
        return frozenset(brake.node_pool for brake in self.brakes if brake.kind is BrakeKind.POOL_PROBE)

    @property
    def zones(self) -> tuple[str, ...]:
        """Names or ids of the zones in which nothing may be launched."""
        return tuple(sorted({brake.zone for brake in self.brakes if brake.zone}))


def action_of(reason: str) -> Action:
    """Return the action of removing a claim for `reason` (`Deletion.reason`), before its drain has begun."""
    if reason in BUDGETED:
        return Action.DISRUPT
    return _ACTIONS_BY_REASON.get(reason, Action.EVACUATE)


_ACTIONS_BY_REASON: Final[Mapping[str, Action]] = MappingProxyType(
    {
        TerminationReason.EXPIRED: Action.EXPIRE,
        TerminationReason.EXPIRED_FORCEFULLY: Action.EXPIRE,
        TerminationReason.SCHEDULED_CHANGE: Action.EXPIRE,
        TerminationReason.OUTSIDE_HOURS: Action.EXPIRE,
        TerminationReason.OUTSIDE_HOURS_FORCED: Action.EXPIRE,
        TerminationReason.NODE_POOL_DELETED: Action.DELETED_POOL,
        TerminationReason.UNHEALTHY: Action.REPAIR,
        TerminationReason.UNKNOWN_INSTANCE: Action.END_UNKNOWN,
    }
)


# Interprets the text of the kill switch parameter.


class Mode(StrEnum):
    """The values that the parameter may have."""

    RUN = "run"
    PAUSE_DISRUPTION = "pause-disruption"
    STOP = "stop"


def kill_switch(text: str, parameter: str) -> Brake | None:
    """The brake that the parameter's text engages, None for `run`. An unknown text pauses disruption."""
    match text.strip().lower():
        case Mode.RUN:
            return None
        case Mode.STOP:
            return Brake(BrakeKind.STOP, f"parameter {parameter} is {Mode.STOP}; set it to {Mode.RUN} to continue")
        case Mode.PAUSE_DISRUPTION:
            return Brake(
                BrakeKind.PAUSE, f"parameter {parameter} is {Mode.PAUSE_DISRUPTION}; set it to {Mode.RUN} to continue"
            )
        case _:
            modes = ", ".join(Mode)
            return Brake(BrakeKind.UNREADABLE, f"parameter {parameter} is {text[:40]!r}; set it to one of {modes}")
