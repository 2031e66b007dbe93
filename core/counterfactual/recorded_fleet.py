"""Sums up a recorded fleet: its cost, the evicted pods, how long pods waited, how long nodes took to boot."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from statistics import median_low

import msgspec

from core.counterfactual.proven_minimum import ProvenMinimum
from core.counterfactual.workload_places import is_simulated
from core.disruption.fleet_cost import fleet_price
from core.model import node_claim
from core.model.node_claim import NodeClaim
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes
from core.model.values.duration import HOUR, MICROSECOND, MICROSECONDS_PER_HOUR


class RecordedFleetResult(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of a recorded period.

    Attributes:
        cost: Nano-dollars; each snapshot's price applies until the next one.
        hours: Of all nodes together.
        launched: NodeClaims that were created in the period.
        evicted: Pods that left a node under voluntary disruption (condition DisruptionReason), counted each time.
        displaced: Pods that left a node that went for another or no recorded reason: interruption, expiry, by hand.
        arrived: Pod that was created in the period → since when it waited, as far as snapshots show.
        waits: Those of these pods that were bound → how long they waited.
        boot: The median time from NodeClaim to initialized node; None if no node of the period shows it.
        series: Moment and nano-dollars per hour from then on.
        minimum: The proven minimum of any fleet for these pods, beside the cost of the recorded one; None if nothing is proven.
    """

    cost: int
    hours: float
    launched: int
    evicted: int
    displaced: int
    nodes: int
    arrived: dict[str, datetime]
    waits: dict[str, timedelta]
    boot: timedelta | None
    series: tuple[tuple[datetime, int], ...]
    minimum: ProvenMinimum | None


class RecordedFleet:
    """`see` the snapshots of a period in order of time, then `finish`. Pods of the first snapshot do not wait."""

    def __init__(self) -> None:
        self._last: Snapshot | None = None
        self._hourly = self._cost = 0
        self._floor: int | None = None
        self._node_time = self._minimum_over = timedelta(0)
        self._minimum = self._minimum_cost = 0
        self._nodes: dict[str, NodeClaim] = {}
        self._seen_claims: set[str] = set()
        self._first_claims: frozenset[str] = frozenset()
        self._by_choice: set[str] = set()
        self._going: set[str] = set()
        self._places: dict[str, str] = {}
        self._known: set[str] = set()
        self._arrived: dict[str, datetime] = {}
        self._waits: dict[str, timedelta] = {}
        self._left: Counter[bool] = Counter()
        self._boots: dict[str, timedelta] = {}
        self._series: list[tuple[datetime, int]] = []

    def see(self, snapshot: Snapshot, floor: int | None) -> None:
        """Add the next snapshot. `floor` is the proven minimum of its fleet in nano-dollars per hour, None if unknown."""
        self._charge(snapshot.now)
        claims = {s.name: s.claim for s in state_nodes(snapshot) if s.claim is not None and s.node is not None}
        pods = {pod.key: pod for pod in snapshot.pods}
        if self._last is None:
            self._known = set(pods)
            self._first_claims = frozenset(claim.name for claim in snapshot.node_claims)
        else:
            self._note_departures(claims, pods)
            self._note_waits(pods, snapshot.now)
        self._note_boots(claims)
        self._places = {
            key: pod.node_name for key, pod in pods.items() if is_simulated(pod) and pod.node_name in claims
        }
        self._seen_claims |= {claim.name for claim in snapshot.node_claims}
        self._nodes = claims
        self._hourly, self._floor, self._last = fleet_price(snapshot), floor, snapshot
        if not self._series or self._series[-1][1] != self._hourly:
            self._series.append((snapshot.now, self._hourly))

    def finish(self, until: datetime) -> RecordedFleetResult:
        """Return the totals; the last snapshot's fleet lasts until the end of the period."""
        self._charge(until)
        return RecordedFleetResult(
            cost=self._cost // MICROSECONDS_PER_HOUR,
            hours=self._node_time / HOUR,
            launched=len(self._seen_claims - self._first_claims),
            evicted=self._left[True],
            displaced=self._left[False],
            nodes=len(self._nodes),
            arrived=self._arrived,
            waits=self._waits,
            boot=median_low(self._boots.values()) if self._boots else None,
            series=tuple(self._series),
            minimum=self._proven(),
        )

    def _proven(self) -> ProvenMinimum | None:
        if not self._minimum_over:
            return None
        an_hour = MICROSECONDS_PER_HOUR
        cost, spent = self._minimum // an_hour, self._minimum_cost // an_hour
        return ProvenMinimum(cost=cost, spent=spent, over=self._minimum_over)

    def _charge(self, now: datetime) -> None:
        if self._last is None:
            return
        span = now - self._last.now
        self._cost += self._hourly * (span // MICROSECOND)
        self._node_time += span * len(self._nodes)
        if self._floor is not None:
            self._minimum += self._floor * (span // MICROSECOND)
            self._minimum_cost += self._hourly * (span // MICROSECOND)
            self._minimum_over += span

    def _note_departures(self, claims: dict[str, NodeClaim], pods: dict[str, Pod]) -> None:
        """Count the pods that left a leaving node. A finished pod, or one whose node stays, was not evicted."""
        for name, claim in {**self._nodes, **claims}.items():
            if claim.is_true(node_claim.DISRUPTION_REASON):
                self._by_choice.add(name)
            if claim.deleted_at is not None or name not in claims:
                self._going.add(name)
        for key, node in self._places.items():
            pod = pods.get(key)
            has_left = pod is None or (is_simulated(pod) and pod.node_name != node)
            if has_left and node in self._going | self._by_choice:
                self._left[node in self._by_choice] += 1

    def _note_waits(self, pods: dict[str, Pod], now: datetime) -> None:
        """Record waits. A pod that is bound when first seen waited less than one snapshot interval, which counts as zero."""
        for key, pod in pods.items():
            if not is_simulated(pod):
                continue
            if key not in self._known:
                self._known.add(key)
                self._arrived[key] = now if pod.node_name else pod.created_at or now
            if pod.node_name and key in self._arrived and key not in self._waits:
                self._waits[key] = now - self._arrived[key]

    def _note_boots(self, claims: dict[str, NodeClaim]) -> None:
        for claim in claims.values():
            found = claim.conditions.get(node_claim.INITIALIZED)
            is_new = claim.name not in self._first_claims and claim.name not in self._boots
            if not is_new or found is None or found.status != "True" or found.changed_at is None:
                continue
            if claim.created_at is not None and found.changed_at >= claim.created_at:
                self._boots[claim.name] = found.changed_at - claim.created_at
