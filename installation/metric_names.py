"""Names of the counts on which alarms or graphs are based, shared by the code that counts and the code that watches.

Controllers count in camel case (`Outcome.count`); CloudWatch gets the same name with a capital letter (`in_cloudwatch`).
Counts with the same response share an alarm (`ALARMS`): an alarm is priced by the metrics that it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from core.brakes import BrakeKind

NAMESPACE: Final = "Fleetwright"
"""CloudWatch's namespace of our metrics."""

STALE_SWEEPS: Final = "staleSweeps"
"""Sweeps of `reconcile` that have not been clean for half an hour."""

FAILED_SWEEPS: Final = "failedSweeps"
"""Sweeps of this run that failed, entirely or for one of their objects."""

SKIPPED_SWEEPS: Final = "skippedSweeps"
"""Sweeps that this run had no time for."""

UNKNOWN_FIELDS: Final = "unknownFields"
UNKNOWN_INSTANCES: Final = "unknownInstances"
"""Instances with our claim tag for which no claim exists or can be rebuilt."""

LOST_INSTANCES_HELD: Final = "lostInstancesHeld"
"""Claims whose instance EC2 no longer lists, but that stay for now: if many are lost at once, the list may be wrong."""

SWEEP_BRAKE: Final = "unknownInstancesBrake"
"""1 while too many instances are unknown: nothing is terminated or disrupted until a person has checked."""

DRAINS_BLOCKED: Final = "drainsBlocked"
"""Leaving nodes whose drain has made no progress for a quarter of an hour."""

DRAINS_BLOCKED_FOR_A_DAY: Final = "drainsBlockedForADay"
"""The subset without progress for a day: only a person can help."""

INCONSISTENT_NODES: Final = "inconsistentNodes"
"""Nodes with less than nine tenths of the planned amount of a requested resource."""

CHANGED_NODE_CLASSES: Final = "changedNodeClasses"
"""EC2NodeClasses whose resolution has changed, such as a new image or subnet."""

ROLLOUTS_STOPPED: Final = "rolloutsStopped"
"""NodePools whose drifted nodes stay because their replacements did not become ready; counted by each run of `disrupt`."""

PROPOSALS_WAITING: Final = "proposalsWaiting"
"""Commands that wait for a person's approval; written by each pass of `disrupt` that sees or makes some."""

FAILED_PARTS: Final = "failedParts"
"""Parts of a large cluster about which no function has decided; counted by the run that joins the others."""

FAILED_RUNS: Final = "failedRuns"
"""Runs that raised an error, or were about to be cut off at their timeout."""

DENIED_CALLS: Final = "deniedCalls"
"""Calls that were refused permanently, and that ended a run or are the reason of a decision: permission, quota, a broken
reference. Also written by action and resource, with the launches that stay refused, on which the alarm `refused-calls` is
based."""

CHAINS_CUT: Final = "chainsCut"
"""Messages that a function did not send to itself, because their chain was longer than any chain should be
(`adapters.messages.HOPS_MAX`). The alarm `loops-stopped` also reads how many Lambda dropped."""

UNPERMITTED_CALLS: Final = "unpermittedCalls"
"""Calls without permission whose errors a run handles, so that it goes on without them. Also written by action and resource,
on which the alarm `missing-permissions` is based."""

ESTIMATED_PRICES: Final = "estimatedPrices"
"""1 while on-demand prices are estimated, because the list could never be read; written by each run of `refresh_catalogue`."""

STALE_MARKET: Final = "staleMarket"
"""Parts of the market (prices; instance types and zones) that were last read long ago; written by each run of
`refresh_catalogue`."""

UNREADABLE_ROWS: Final = "unreadableRows"
"""Rows of the table that are left out because they cannot be read; counted by each round of `reconcile`."""

SET_ASIDE: Final = "setAsideObjects"
"""Objects, and audit log lines, that cause an error of ours and are left out; counted by each run that meets them."""

LAUNCH_DENIALS: Final = "launchDenials"
"""Causes for which EC2 currently launches nothing from an EC2NodeClass, a lack of capacity left out: no person need act on it.
Written by each run of `provision` that plans."""

QUOTA_DENIALS: Final = "quotaDenials"
"""The subset caused by a vCPU quota of the account."""

BUDGETS_CLOSED_FOR_A_WEEK: Final = "budgetsClosedForAWeek"
"""NodePools that no node may leave voluntarily, now or at any moment of the last seven days."""

CAPS_NEARLY_SPENT: Final = "capsNearlySpent"
"""Days and months of caps that by their forecast end at a percentage that people are to know; counted by each round of
`reconcile`."""

FORECASTS_STOPPED: Final = "forecastsStopped"
"""Ramps whose forecast room was hardly used in the last days, so that they get none; counted at each computation."""

FORECAST_USED_PERCENT: Final = "forecastUsedPercent"
"""How much of the room that was forecast for the last days was used."""

REFUSED_COMMANDS: Final = "refusedCommands"
"""Commands that the table does not store, because their row is too large: their nodes stay."""

COMMANDS_STARTED: Final = "commandsStarted"
"""Commands that begin. Decisions contain each command twice: when it is decided, and when it begins."""

STOPPED: Final = "stopped"
"""Actions that a brake stopped; `stoppedBy` with the brake's reason code counts by brake."""

LEDGER_FAILURES: Final = "ledgerFailures"
"""Decisions that could not be stored in the ledger; voluntary disruption waits until the ledger works again."""

INSTANCES_TERMINATED: Final = "instancesTerminated"
"""Instances that EC2 was asked to terminate, each once."""


def stopped_by(brake: str) -> str:
    """Return the count of what one brake stopped, by its reason code."""
    return f"stoppedBy{brake}"


def in_cloudwatch(count: str) -> str:
    """Return the metric name of a count."""
    return count[:1].upper() + count[1:]


ALARMS: Final[Mapping[str, tuple[str, ...]]] = {
    "failed-runs": (FAILED_RUNS, STALE_SWEEPS),
    "denied": (
        ESTIMATED_PRICES,
        STALE_MARKET,
        UNREADABLE_ROWS,
        stopped_by(BrakeKind.UNREADABLE),
    ),
    "stopped-itself": (
        stopped_by(BrakeKind.POOL_BREAKER),
        stopped_by(BrakeKind.POOL_PROBE),
        stopped_by(BrakeKind.UNKNOWN_INSTANCES),
        stopped_by(BrakeKind.FOREIGN_INSTANCES),
        stopped_by(BrakeKind.SHRINKING),
        LEDGER_FAILURES,
    ),
    "held-back": (
        stopped_by(BrakeKind.STOP),
        stopped_by(BrakeKind.PAUSE),
        stopped_by(BrakeKind.ALARM),
        stopped_by(BrakeKind.ZONAL_SHIFT),
        BUDGETS_CLOSED_FOR_A_WEEK,
    ),
    "nodes-stay": (DRAINS_BLOCKED_FOR_A_DAY, ROLLOUTS_STOPPED, REFUSED_COMMANDS, SET_ASIDE),
}
"""Alarm → the counts that trigger it. No count is in two alarms.

`DENIED_CALLS`, `UNPERMITTED_CALLS` and `CHAINS_CUT` have their own."""

_ALARM_COUNTS: Final = {alarm: "alarm" + "".join(map(str.capitalize, alarm.split("-"))) for alarm in ALARMS}


def alarm_count(alarm: str) -> str:
    """Return the count that adds up an alarm's own."""
    return _ALARM_COUNTS[alarm]


class Metric(NamedTuple):
    """A CloudWatch metric: its unit, and the question that it answers on a graph or in an alarm."""

    unit: str
    question: str


METRICS: Final[Mapping[str, Metric]] = {
    "pendingPods": Metric("Count", "How many pods wait for a node?"),
    "unschedulablePods": Metric("Count", "How many of them can no NodePool help?"),
    "auditLagSeconds": Metric("Seconds", "How late does the audit log reach us?"),
    "claims": Metric("Count", "How many nodes do we manage, booting ones included?"),
    "instances": Metric("Count", "How many instances run with our tag?"),
    "fleetMillidollarsPerHour": Metric("None", "What does the fleet cost an hour?"),
    "plannedMicrodollars": Metric("None", "What do the new nodes of a plan cost an hour?"),
    "boundMicrodollars": Metric("None", "What do they cost an hour at the least, as is proven?"),
    "decisionsLaunch": Metric("Count", "How many instances were launched?"),
    INSTANCES_TERMINATED: Metric("Count", "How many instances were terminated, each once?"),
    COMMANDS_STARTED: Metric("Count", "How many of our commands were begun, each once?"),
    "decisionsExpire": Metric("Count", "How many nodes expired?"),
    "decisionsInterrupt": Metric("Count", "How many nodes did AWS announce to take back?"),
    "refusedLaunches": Metric("Count", "How many launches failed for lack of capacity?"),
    LAUNCH_DENIALS: Metric(
        "Count", "For how many causes except a lack of capacity does EC2 deny launches while pods wait?"
    ),
    QUOTA_DENIALS: Metric("Count", "How many of them because of a quota?"),
    BUDGETS_CLOSED_FOR_A_WEEK: Metric("Count", "How many NodePools have allowed no removal for a week?"),
    CAPS_NEARLY_SPENT: Metric("Count", "How many caps would be nearly spent at the end of their day or month?"),
    FORECASTS_STOPPED: Metric("Count", "How many ramps get no forecast room because it was hardly used?"),
    FORECAST_USED_PERCENT: Metric("Percent", "How much of the room that was forecast for the last days was used?"),
    "deniedLaunches": Metric("Count", "How many launches were refused permanently?"),
    DENIED_CALLS: Metric("Count", "How many calls were refused permanently?"),
    UNPERMITTED_CALLS: Metric("Count", "Without how many calls does a run go on, because a permission is missing?"),
    CHAINS_CUT: Metric("Count", "How many chains of messages were cut because they did not end by themselves?"),
    "portErrors": Metric("Count", "How many calls failed temporarily?"),
    FAILED_RUNS: Metric("Count", "How many runs raised, or were cut off?"),
    FAILED_PARTS: Metric("Count", "About how many parts of a large cluster has no function decided?"),
    "failedImprovements": Metric("Count", "How many searches for a cheaper plan failed?"),
    LEDGER_FAILURES: Metric("Count", "How many decisions were not written to the ledger?"),
    STALE_SWEEPS: Metric("Count", "How many sweeps have not been clean for half an hour?"),
    STOPPED: Metric("Count", "How often did a brake hold something back?"),
    DRAINS_BLOCKED: Metric("Count", "How many drains have made no progress for a quarter of an hour?"),
    DRAINS_BLOCKED_FOR_A_DAY: Metric("Count", "How many for a day?"),
    "invalidNodePools": Metric("Count", "How many NodePools cannot be used?"),
    UNKNOWN_FIELDS: Metric("Count", "How many fields of Karpenter's objects does this version drop?"),
    "invalidNodeClasses": Metric("Count", "How many EC2NodeClasses cannot be used?"),
    **{
        name: Metric("Count", f"How much of what the alarm `{alarm}` is about?")
        for alarm, name in _ALARM_COUNTS.items()
    },
}
"""The counts that are CloudWatch metrics; others are only logged. A metric that is written each hour costs $0.30 a month."""
