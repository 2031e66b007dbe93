"""Names of the counts that an alarm or a graph stands on: said once, for who counts and for who watches.

Controllers count in camel case (`Outcome.count`); CloudWatch gets the same name with a capital letter (`in_cloudwatch`).
"""

from __future__ import annotations

from typing import Final

OLDEST_CLEAN_SWEEP: Final = "oldestCleanSweepSeconds"
"""Seconds since the sweep of `reconcile` that waits longest was last clean; told by every run, so that silence is bad news.

At least 1, for zeros become no metric. Written down every few minutes only: an alarm wants a threshold of fifteen minutes or
more.
"""

FAILED_SWEEPS: Final = "failedSweeps"
"""Sweeps of this run that failed, wholly or for one of their objects."""

SKIPPED_SWEEPS: Final = "skippedSweeps"
"""Sweeps that this run had no time for."""

UNKNOWN_INSTANCES: Final = "unknownInstances"
"""Instances that carry our claim tag and belong to no claim, and for which none can be rebuilt."""

LOST_INSTANCES_HELD: Final = "lostInstancesHeld"
"""Claims whose instance EC2 knows no more and that stay for now, because so many at once may be a mistake."""

SWEEP_BRAKE: Final = "unknownInstancesBrake"
"""1 while so many instances are unknown that nothing is ended or disrupted until a person looks."""

DRAINS_BLOCKED: Final = "drainsBlocked"
"""Nodes that no pod has left for a quarter of an hour, although they are to go and pods are on them."""

DRAINS_BLOCKED_FOR_A_DAY: Final = "drainsBlockedForADay"
"""Those of them that no pod has left for a day: only a person can help."""

INCONSISTENT_NODES: Final = "inconsistentNodes"
"""Nodes with less than nine tenths of a requested resource of what was launched."""

CHANGED_NODE_CLASSES: Final = "changedNodeClasses"
"""EC2NodeClasses that resolve to something else than before: a new image, a subnet."""

ROLLOUTS_STOPPED: Final = "rolloutsStopped"
"""NodePools whose drifted nodes stay because what replaces them did not become ready."""

FAILED_RUNS: Final = "failedRuns"
"""Runs that raised."""

DENIED_CALLS: Final = "deniedCalls"
"""Calls that were refused for good: permission, quota, a broken reference. Told by action too."""

ESTIMATED_PRICES: Final = "estimatedPrices"
"""1 while on-demand prices are estimated, because the list could never be read; told by each run of `refresh_catalogue`."""

LAUNCH_DENIALS: Final = "launchDenials"
"""Causes for which EC2 launches nothing from an EC2NodeClass now; told by each run of `provision` that plans."""

STOPPED: Final = "stopped"
"""What a brake stopped; `stoppedBy` with the brake's reason code tells which."""

LEDGER_FAILURES: Final = "ledgerFailures"
"""Decisions that could not be kept in the ledger; voluntary disruption waits until they can be again."""

INSTANCES_TERMINATED: Final = "instancesTerminated"
"""Instances that EC2 was told to end, each once."""


def stopped_by(brake: str) -> str:
    """The count of what one brake stopped, by its reason code."""
    return f"stoppedBy{brake}"


def in_cloudwatch(count: str) -> str:
    """The metric that a count becomes."""
    return count[:1].upper() + count[1:]
