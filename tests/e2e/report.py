"""`build/e2e.json`: what the real parts showed, gathered from every world that was played on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from core.lifecycle.records import ClaimRecord
from installation import cluster_roles
from tests.e2e.audit_record import Verb, unused
from tests.e2e.functions.account import cold_starts, figures
from tests.e2e.functions.sandbox import Invocation
from tests.e2e.judge import Elsewhere, Verdict
from tests.e2e.planned_pods import Launched

# Measures the time from a pod's creation to the CreateFleet call for it.


def seconds_to_launch(launches: Iterable[Launched], created: Mapping[str, datetime]) -> list[float]:
    """Return the seconds for each pod with a launch, unordered; pods created after the launch do not count."""
    return [
        (launch.called_at - created[pod]).total_seconds()
        for launch in launches
        for pod in launch.pods
        if pod in created and created[pod] <= launch.called_at
    ]


def percentile(values: Iterable[float], share: float) -> float | None:
    """Return the smallest value that at least this share of the values does not exceed, or None without values."""
    ordered = sorted(values)
    if not ordered:
        return None
    return round(ordered[math.ceil(share * len(ordered)) - 1], 2)


# Splits the time from a pod's creation to its open node into parts.


def seconds_since_pods(record: ClaimRecord) -> dict[str, float]:
    """Return the seconds from the creation of the claim's first pod to each later known moment, in their usual order."""
    moments = record.moments
    began = moments.pods_created_at
    if began is None:
        return {}
    later = (
        ("marked", moments.pods_marked_at),
        ("heard", moments.heard_at),
        ("planned", record.requested_at),
        ("launched", moments.launched_at),
        ("seen", moments.seen_at),
        ("usable", moments.usable_at),
        ("bound", moments.bound_at),
        ("opened", moments.opened_at),
    )
    return {name: (moment - began).total_seconds() for name, moment in later if moment is not None}


COLUMNS: Final = ("pods", "bound_as_planned", "bound_elsewhere", "pending", "empty_nodes")

TRIGGERS: Final = ("audit", "poll", "burst")

NEEDED: Final = frozenset(
    {
        "test_bad_input.py",
        "test_burst.py",
        "test_kueue.py",
        "test_optional_settings.py",
        "test_outage.py",
        "test_scenarios.py",
    }
)
"""What has to run before all that the role allows can have been asked for."""

NOT_PLAYED: Final = frozenset(
    {
        Verb("", "nodes", "watch"),  # lists of ten thousand objects are continued
        Verb("", "pods", "watch"),
        Verb(
            "karpenter.sh", "nodeoverlays/status", "patch"
        ),  # for fields that our definitions lack, which the server drops
        Verb("scheduling.k8s.io", "podgroups", "list"),  # served behind a gate, which only the module of 1.37 has
        Verb("scheduling.k8s.io", "workloads", "list"),
    }
)
"""What the role allows for clusters that no world here is like. Simulated clusters ask for each of them."""


class Report(msgspec.Struct, kw_only=True):
    """What one world showed, or several together; plain enough to be sent from one process to another.

    Attributes:
        scenarios: The verdicts, in the order in which they were played.
        latencies: Seconds from pod to CreateFleet, by what woke the functions; those of a burst, which pods wait for, apart.
        moments: Seconds from a claim's first pod to each moment of the claim, by moment (`tests.e2e.report`).
        elsewhere: By scene, the pods that are not where they were planned.
        seconds: By scene, and what it took to start a world.
        invocations: Every one, without what it answered.
        decisions: How many decisions of the functions were repeated byte for byte.
        refused, used: What the functions asked the API server for and were not, or were, allowed.
    """

    scenarios: list[Verdict] = []
    latencies: dict[str, list[float]] = {}
    moments: dict[str, list[float]] = {}
    elsewhere: dict[str, list[Elsewhere]] = {}
    seconds: dict[str, float] = {}
    invocations: list[Invocation] = []
    decisions: int = 0
    refused: list[Verb] = []
    used: list[Verb] = []

    @classmethod
    def of(cls, worlds: Iterable[Mapping[str, Any]]) -> Report:
        """All worlds' reports (`to_builtins`) as one."""
        whole = cls()
        for found in worlds:
            whole.add(msgspec.convert(found, cls))
        return whole

    def add(self, other: Report) -> None:
        """Take in what another world showed."""
        self.scenarios += other.scenarios
        for trigger, seconds in other.latencies.items():
            self.take_latencies(trigger, seconds)
        for moment, seconds in other.moments.items():
            self.moments.setdefault(moment, []).extend(seconds)
        self.elsewhere |= other.elsewhere
        self.seconds |= other.seconds
        self.invocations += other.invocations
        self.decisions += other.decisions
        self.refused = sorted({*self.refused, *other.refused})
        self.used = sorted({*self.used, *other.used})

    def take_latencies(self, trigger: str, seconds: Iterable[float]) -> None:
        """Take in what pods waited for their launch."""
        self.latencies.setdefault(trigger, []).extend(seconds)

    def take_moments(self, claims: Iterable[ClaimRecord]) -> None:
        """Take in where the time of these claims went."""
        for claim in claims:
            for moment, seconds in seconds_since_pods(claim).items():
                self.moments.setdefault(moment, []).append(seconds)

    def add_invocations(self, invocations: Iterable[Invocation]) -> None:
        """Take in the functions' invocations."""
        self.invocations += [msgspec.structs.replace(found, response=None) for found in invocations]

    def to_builtins(self) -> dict[str, Any]:
        """Lists, dicts, numbers and strings."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain

    def complaints(self, modules: Iterable[str]) -> Iterator[str]:
        """What is wrong with the functions' ClusterRole, where these test modules ran."""
        for verb in self.refused:
            yield f"the ClusterRole lacks `{verb}`: a function was refused it (installation/cluster_roles.py)"
        if set(modules) >= NEEDED:
            for verb in sorted({*unused(self.used, cluster_roles.RULES_OF.values())} - NOT_PLAYED):
                yield f"no function ever asked to `{verb}`: the ClusterRole need not allow it (installation/cluster_roles.py)"

    def table(self) -> str:
        """A row for each scene, for people; nothing without scenes."""
        if not self.scenarios:
            return ""
        width = max(len(verdict.name) for verdict in self.scenarios)
        rows = [f"{'':{width}}  {'  '.join(name.replace('_', ' ') for name in (*COLUMNS, 'violations'))}"]
        for verdict in self.scenarios:
            counts = [f"{getattr(verdict, name):>{len(name)}}" for name in COLUMNS]
            rows.append(f"{verdict.name:{width}}  {'  '.join(counts)}  {len(verdict.violations):>10}")
        return "\n".join(rows)

    def write(self, path: Path) -> None:
        """Write the report, and beside it what people ask next: who is elsewhere, how long, what each function took."""
        report: dict[str, Any] = {
            "scenarios": [msgspec.to_builtins(verdict) for verdict in self.scenarios],
            "latencySeconds": {trigger: _spread(self.latencies.get(trigger, [])) for trigger in TRIGGERS},
            "momentSeconds": {moment: _spread(seconds) for moment, seconds in self.moments.items()},
            "decisionsRepeated": self.decisions,
            "coldStartMillis": cold_starts(self.invocations),
            "unusedVerbs": [str(verb) for verb in unused(self.used, cluster_roles.RULES_OF.values())],
            "missingVerbs": [str(verb) for verb in self.refused],
        }
        details = {"seconds": self.seconds, "functions": figures(self.invocations), "elsewhere": self.elsewhere}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_pretty(report))
        path.with_name("e2e-details.json").write_bytes(_pretty(details))


def _spread(values: list[float]) -> dict[str, float | None]:
    return {"p50": percentile(values, 0.5), "p99": percentile(values, 0.99)}


def _pretty(content: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
