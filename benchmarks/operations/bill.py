"""Computes dollars per month from the usage of an hour, at list prices of us-east-1 without free tiers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from benchmarks.operations.playing import Played
from infra.constructs.alarms import RUNBOOK
from infra.packaging.dependencies import ROOT
from installation.wiring import QUEUES

HOURS_A_MONTH: Final = 730
GIGABYTE: Final = 10**9

PRICES: Final[Mapping[str, float]] = {
    "gigabyteSeconds": 0.0000133334,
    "lambdaRequests": 0.20e-6,
    "readUnits": 0.125e-6,
    "writeUnits": 0.625e-6,
    "queueRequests": 0.40e-6,
    "bucketReads": 0.40e-6,
    "bucketWrites": 5.0e-6,
    "logBytes": 0.50 / GIGABYTE,
    "apiServerBytes": 0.02 / GIGABYTE,
}
"""Usage → dollars per unit. What the API server sends crosses zones, at $0.01 a gigabyte on each side; a NAT gateway would add
$0.045."""

TRANSITION: Final = 25e-6
"""Dollars for a state transition of Step Functions' standard workflows."""

TRANSITIONS_A_PART, TRANSITIONS_A_RUN = 2, 4
"""Into the only state of a part's workflow and its end; and those of the workflow around the Distributed Map."""

RUNS_AN_HOUR: Final = 60
"""Executions for which `disrupt` divides a cluster: at most one for each of its runs."""

METRIC, ALARM, DASHBOARD = 0.30, 0.10, 3.00
"""Dollars per month for each."""

POLLS_AN_HOUR: Final = len(QUEUES) * 5 * 180
"""Requests to all queues: five pollers for each, with one request in twenty seconds (Lambda's event source mappings)."""

AUDIT_LOG_GIGABYTE: Final = 0.50
TABLE_GIGABYTE: Final = 0.25 + 0.20
"""Dollars per month and gigabyte, for storage and for point-in-time recovery."""

BYTES_A_NODE: Final = 3_000
"""Bytes in the table per node: a claim with its command and indexes."""


def monthly(played: Played) -> dict[str, float]:
    """Return the cost of a month of such hours, by purpose, in dollars."""
    counts, usage = played.usage.counts, played.usage
    cost = {
        "functions": sum(usage.gigabyte_seconds.values()) * PRICES["gigabyteSeconds"]
        + counts["lambdaRequests"] * PRICES["lambdaRequests"],
        "table": counts["readUnits"] * PRICES["readUnits"] + counts["writeUnits"] * PRICES["writeUnits"],
        "queues": (counts["queueRequests"] + POLLS_AN_HOUR) * PRICES["queueRequests"],
        "bucket": counts["bucketReads"] * PRICES["bucketReads"] + counts["bucketWrites"] * PRICES["bucketWrites"],
        "logs": counts["logBytes"] * PRICES["logBytes"],
        "transfer": counts["apiServerBytes"] * PRICES["apiServerBytes"],
    }
    by_month = {name: dollars * HOURS_A_MONTH for name, dollars in cost.items()}
    by_month["storage"] = played.nodes * BYTES_A_NODE / GIGABYTE * TABLE_GIGABYTE
    by_month["metrics"] = usage.metrics() * METRIC
    by_month["alarms"] = watched() * ALARM
    return {name: round(dollars, 2) for name, dollars in by_month.items()}


def transitions(nodes: int, part_nodes: int, distribute_from: int) -> float:
    """Return the dollars a month for deciding about parts in functions of their own; 0 without `distributeFrom`, or below it.

    The functions that decide cost as much as in one invocation; what they read again is not counted.
    """
    if not distribute_from or nodes <= distribute_from:
        return 0.0
    an_execution = TRANSITIONS_A_RUN + TRANSITIONS_A_PART * -(-nodes // part_nodes)
    return round(an_execution * RUNS_AN_HOUR * HOURS_A_MONTH * TRANSITION, 2)


def watched() -> int:
    """Return how many metrics the alarms read; the runbook states the number, and a test compares it with the templates."""
    match = re.search(r"alarms read (\d+) metrics", (ROOT / RUNBOOK).read_text(encoding="utf-8"))
    if match is None:
        raise LookupError(f"{RUNBOOK} does not say how many metrics the alarms read")
    return int(match[1])


def calculated(nodes: int, measured: Mapping[int, Mapping[str, float]]) -> dict[str, float]:
    """Return the cost for a number of nodes that is not measured: each part goes on along the line of the two largest sizes.

    Most parts are that straight: each run lists every node and reads every claim. What has no nodes in it stays as it is.
    """
    below, above = sorted(measured)[-2:]
    share = (nodes - below) / (above - below)
    return {
        part: round(measured[below][part] + (dollars - measured[below][part]) * share, 2)
        for part, dollars in measured[above].items()
    }
