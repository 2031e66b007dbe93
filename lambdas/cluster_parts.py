"""Parts of a cluster that is too large for one invocation: Step Functions' Distributed Map has a function decide about each.

`disrupt` stores the parts and starts the state machine, `decide_part` decides about one part, and `disrupt` joins the decisions
(docs/engineering/handbook/scale.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import reduce
from typing import Final

import msgspec

from adapters.messages import PartRequest, PartsRun
from adapters.observability import CODE
from adapters.observation.stores import snapshot_digest
from adapters.ports import Clock, NotFoundError, ObjectStore, StateMachine
from adapters.run_report import RunReport
from adapters.runtime import share_until
from adapters.store import PARTS, Lease, Leases
from core import codec
from core.containment import Exclusion, SetAside, contained, excluding
from core.disruption.decision import disrupt, joined_plans, left_alone, parts_of, turns_of_parts
from core.errors import InvalidInputError
from core.interpreter import collector_paused
from core.ledger.encoding import decode_catalogue, encode_catalogue, read_form, written_form
from core.ledger.entry import RecordedTime, time_of_parts
from core.ledger.reading import decode_base, encode_base
from core.model.catalogue import Catalogue
from core.model.plan import DisruptionPlan
from core.model.snapshot import Snapshot
from core.reasons.code import DecisionKind
from core.reasons.runs import RunReason
from core.scheduling.planner import Planner
from installation.metric_names import FAILED_PARTS
from installation.wiring import PARTS_MACHINE

TAKEN_FOR: Final = timedelta(minutes=5)
"""How long a run holds the lease that has not started an execution: as long as an invocation of `disrupt` may take."""

EXECUTED_WITHIN: Final = PARTS_MACHINE.timeout + timedelta(minutes=1)
"""How long an execution holds it, and the greatest age of a snapshot whose decisions are joined.

Step Functions ends an execution before that."""

PARTS_MAX: Final = 200
"""A cluster of more parts is planned in one invocation: each costs an object, and `disrupt` writes them one after the other."""

STARTED_AGAIN_AFTER: Final = timedelta(minutes=5)
QUIET_FOR: Final = timedelta(minutes=30)
"""How long an unchanged cluster is not decided about again; the second if the last decision was to do nothing."""

STORING: Final = timedelta(seconds=20)
"""Time that is reserved after a part's decision to store it."""

POOLS_NAMED: Final = 5
"""The most NodePools by which a part is named in a message."""


class StoredPlan(msgspec.Struct, frozen=True):
    """The decision about a part.

    Attributes:
        plan: As `core.codec` writes it.
        elapsed: The readings of the clock that bounded it.
        code: Digest of the code that made it. Other code may decide differently, and then no replay would repeat it.
        exclusion: What was set aside for it.
    """

    plan: str
    elapsed: tuple[int, ...]
    code: str
    exclusion: Exclusion | None = None


class PartsStore:
    """The snapshots of executions and of their parts, and the decisions about these, as objects of the bucket."""

    def __init__(self, objects: ObjectStore, cluster: str) -> None:
        self._objects = objects
        self._cluster = cluster

    def write(self, run: str, snapshot: Snapshot, parts: Sequence[Snapshot]) -> None:
        """Store the snapshot and its parts, in the form that the ledger keeps. Raises PortError."""
        self._put(run, "catalogue", encode_base(encode_catalogue(snapshot.catalogue)))
        self._put(run, "whole", encode_base(written_form(snapshot)))
        for number, part in enumerate(parts):
            self._put(run, f"part-{number}", encode_base(written_form(part)))

    def whole(self, run: str) -> Snapshot:
        """Return the snapshot of an execution. Raises PortError, InvalidInputError."""
        return self._snapshot(run, "whole", self._catalogue(run))

    def part(self, run: str, number: int) -> Snapshot:
        """Return the snapshot of a part. Raises PortError, InvalidInputError."""
        return self._snapshot(run, f"part-{number}", self._catalogue(run))

    def keep(
        self, run: str, number: int, plan: DisruptionPlan, elapsed: Sequence[int], exclusion: Exclusion | None = None
    ) -> None:
        """Store the decision about a part, and what was set aside for it. Raises PortError."""
        stored = StoredPlan(codec.encode_disruption_plan(plan).decode(), tuple(elapsed), CODE, exclusion)
        self._put(run, f"decision-{number}", encode_base(msgspec.json.encode(stored)))

    def decision(self, run: str, number: int) -> StoredPlan:
        """Return the decision about a part. Raises PortError, InvalidInputError."""
        return msgspec.json.decode(decode_base(self._get(run, f"decision-{number}")), type=StoredPlan)

    def close(self, run: str, commands: int) -> None:
        """Store that the decisions are joined, and how many commands they have. Raises PortError."""
        self._put(run, "joined", str(commands).encode())

    def announce(self, run: str) -> None:
        """Store that the execution of this run is the last one. Raises PortError."""
        self._objects.put(f"{self._cluster}/last", run.encode())

    def last(self) -> str:
        """Return the run of the last execution, empty for none. Raises PortError."""
        try:
            return self._objects.get(f"{self._cluster}/last").decode(errors="replace")
        except NotFoundError:
            return ""

    def joined_commands(self, run: str) -> int | None:
        """Return how many commands the joined decisions have; None if they are not joined. Raises PortError."""
        try:
            return int(self._get(run, "joined"))
        except NotFoundError:
            return None

    def _catalogue(self, run: str) -> Catalogue:
        return decode_catalogue(decode_base(self._get(run, "catalogue")))

    def _snapshot(self, run: str, name: str, catalogue: Catalogue) -> Snapshot:
        with collector_paused():
            return read_form(decode_base(self._get(run, name)), catalogue)

    def _put(self, run: str, name: str, body: bytes) -> None:
        self._objects.put(f"{self._cluster}/{run}/{name}", body)

    def _get(self, run: str, name: str) -> bytes:
        return self._objects.get(f"{self._cluster}/{run}/{name}")


class PartDecisions:
    """The controller of `decide_part`."""

    def __init__(self, store: PartsStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def run(self, request: PartRequest, report: RunReport, *, deadline: datetime) -> None:
        """Decide about one part, and store the decision. Raises PortError."""
        clock = share_until(self._clock, deadline - STORING)
        part = self._store.part(request.run, request.part)

        def timed_plan(snapshot: Snapshot) -> tuple[DisruptionPlan, RecordedTime]:
            time = RecordedTime(clock)  # of this attempt alone, for a replay makes no other
            with collector_paused():
                return disrupt(snapshot, deadline=time, proves=request.proves), time

        decided = contained(part, timed_plan, is_out_of_time=lambda: clock() >= 1)
        plan, time = decided.result
        report.count("commands", len(plan.commands))
        self._store.keep(request.run, request.part, plan, time.elapsed, decided.exclusion)


class JoinedParts(msgspec.Struct, frozen=True):
    """The decision about a snapshot that was decided about in parts, and the readings with which a replay repeats it.

    Attributes:
        snapshot: Without what functions have set aside.
        plan: The decision.
        elapsed: The readings.
        set_aside: What they have set aside.
    """

    snapshot: Snapshot
    plan: DisruptionPlan
    elapsed: tuple[int, ...]
    set_aside: tuple[SetAside, ...]


class DistributedParts:
    """Starts executions for `disrupt`, one at a time, and joins their decisions.

    Args:
        nodes_from: Only larger clusters are decided about in this way.
    """

    def __init__(
        self, store: PartsStore, leases: Leases, machine: StateMachine, clock: Clock, *, nodes_from: int
    ) -> None:
        self._store = store
        self._leases = leases
        self._machine = machine
        self._clock = clock
        self._nodes_from = nodes_from
        self._lease: Lease | None = None
        self._run = ""
        self._last: tuple[str, str, datetime] | None = None

    def begin(self, run: str, report: RunReport) -> bool:
        """Whether no execution is under way, so that the run may observe and decide. Raises PortError."""
        self._run, self._lease = run, self._take(run, TAKEN_FOR)
        if self._lease is None and self._is_left_behind():
            self._lease = self._take(run, TAKEN_FOR)
        if self._lease is None:
            report.count("distributedRuns")
        return self._lease is not None

    def _is_left_behind(self) -> bool:
        """Whether an execution that has ended without its join held the lease, which is then free. Raises PortError."""
        run = self._store.last()
        if not run or not self._machine.has_ended(run):
            return False
        lease = self._take(run, TAKEN_FOR)  # None if another run holds it
        if lease is not None:
            self._leases.release(lease)
        return lease is not None

    def end(self) -> None:
        """Let others begin, unless an execution was started. Raises PortError."""
        lease, self._lease = self._lease, None
        if lease is not None:
            self._leases.release(lease)

    def start(
        self,
        observed: Snapshot,
        snapshot: Snapshot,
        report: RunReport,
        *,
        deadline: datetime,
        proves: bool,
        is_window: bool,
    ) -> bool:
        """Start an execution about a large cluster; return False if its decision is to be made here. Raises PortError.

        Args:
            observed: What was observed; as long as it stays the same, no other execution is started.
            snapshot: The same with the stored target.
            report: Counts the parts.
            deadline: When the run is cut off.
            proves: Whether to compute the proven minimum cost of the fleet.
            is_window: Whether a budget window has just opened or closed, so that earlier decisions are invalid.
        """
        if len(snapshot.nodes) <= self._nodes_from:
            return False
        digest, now = snapshot_digest(observed), self._clock.now()
        if not is_window and self._is_decided(digest, now):
            report.count("unchanged")
            return True
        clock = share_until(self._clock, deadline)
        with collector_paused():
            divided = contained(snapshot, _parts, is_out_of_time=lambda: clock() >= 1)
        parts = divided.result
        if not 1 < len(parts) <= PARTS_MAX:
            return False
        self._store.write(self._run, divided.snapshot, parts)
        request = PartsRun(run=self._run, parts=tuple(range(len(parts))), proves=proves, code=CODE)
        self._store.announce(self._run)
        self._lease = self._take(self._run, EXECUTED_WITHIN) or self._lease
        self._machine.start(self._run, request.to_input())
        self._lease, self._last = None, (self._run, digest, now)
        report.count("startedParts", len(parts))
        return True

    def resume(self, run: str, report: RunReport) -> bool:
        """Whether no other execution was started since this one, so that its decisions may be joined. Raises PortError."""
        self._lease = self._take(run, TAKEN_FOR)
        if self._lease is None:
            report.count("staleParts")
        return self._lease is not None

    def join(self, request: PartsRun, report: RunReport) -> JoinedParts | None:
        """Return the decision about all parts of an execution; None if it is too old, or joined already. Raises PortError."""
        if request.code != CODE or self._store.joined_commands(request.run) is not None:
            report.count("staleParts")
            return None
        snapshot = self._store.whole(request.run)
        if self._clock.now() - snapshot.now > EXECUTED_WITHIN:
            report.count("staleParts")
            return None
        decisions = {number: self._decision(request.run, number, report) for number in request.parts}
        snapshot, decisions, parts = self._without_set_aside(request.run, snapshot, decisions, report)
        plans: dict[int, DisruptionPlan] = {}
        elapsed: list[tuple[int, ...] | None] = []
        for number in turns_of_parts(snapshot.now, len(request.parts)):
            stored = decisions[number]
            if stored is None:
                plans[number] = left_alone(parts[number] if parts else self._store.part(request.run, number))
            else:
                plans[number] = codec.decode_disruption_plan(stored.plan.encode())
            elapsed.append(None if stored is None else stored.elapsed)
        joined = joined_plans(snapshot, [plans[number] for number in range(len(plans))])
        set_aside = {aside for stored in decisions.values() for aside in _set_aside(stored)}
        return JoinedParts(snapshot, joined, time_of_parts(elapsed), tuple(sorted(set_aside)))

    def _without_set_aside(
        self, run: str, snapshot: Snapshot, decisions: dict[int, StoredPlan | None], report: RunReport
    ) -> tuple[Snapshot, dict[int, StoredPlan | None], Sequence[Snapshot]]:
        """Return the snapshot without what functions have set aside, the decisions that hold for it, and its parts if changed.

        Without these objects, the cluster may have other parts. A decision holds if it is about a part as it is now, so that a
        replay, which divides the cluster again, repeats it.
        """
        exclusions = {n: stored.exclusion for n, stored in decisions.items() if stored and stored.exclusion}
        if not exclusions:
            return snapshot, decisions, ()
        rest = reduce(excluding, exclusions.values(), snapshot)
        parts = _parts(rest)
        if len(parts) != len(decisions):
            rest, parts = snapshot, _parts(snapshot)
        held: dict[int, StoredPlan | None] = {}
        for number, stored in decisions.items():
            part, exclusion = self._store.part(run, number), exclusions.get(number)
            decided = part if exclusion is None else excluding(part, exclusion)
            is_held = stored is not None and decided == parts[number]
            if stored is not None and not is_held:
                self._report_failed(
                    part, number, "objects that are set aside for it, or for another, change it", report
                )
            held[number] = stored if is_held else None
        return rest, held, parts

    def close(self, run: str, plan: DisruptionPlan) -> None:
        """Record that an execution's decisions are carried out. Raises PortError."""
        self._store.close(run, len(plan.commands))

    def _is_decided(self, digest: str, now: datetime) -> bool:
        """Whether an execution about the same cluster was started a short time ago."""
        if self._last is None or self._last[1] != digest:
            return False
        run, _, started_at = self._last
        is_quiet = now - started_at < QUIET_FOR and self._store.joined_commands(run) == 0
        return is_quiet or now - started_at < STARTED_AGAIN_AFTER

    def _decision(self, run: str, number: int, report: RunReport) -> StoredPlan | None:
        """Return the decision about a part; None if it is missing, unreadable or made by other code."""
        problem = "its function has failed or was cut off"
        try:
            stored = self._store.decision(run, number)
            if stored.code == CODE:
                return stored
            problem = "another version has decided about it"
        except NotFoundError:
            pass
        except (InvalidInputError, msgspec.MsgspecError) as error:
            problem = str(error)
        self._report_failed(self._store.part(run, number), number, problem, report)
        return None

    def _report_failed(self, part: Snapshot, number: int, problem: str, report: RunReport) -> None:
        pools = sorted(pool.name for pool in part.node_pools)
        subject = ", ".join(pools[:POOLS_NAMED]) + (" and others" if len(pools) > POOLS_NAMED else "")
        report.count(FAILED_PARTS)
        report.decide(DecisionKind.SKIP, subject or f"part {number}", RunReason.PART_NOT_DECIDED, problem)

    def _take(self, run: str, duration: timedelta) -> Lease | None:
        return self._leases.acquire(PARTS, run, now=self._clock.now(), for_=duration)


def _set_aside(stored: StoredPlan | None) -> tuple[SetAside, ...]:
    return stored.exclusion.set_aside if stored is not None and stored.exclusion is not None else ()


def _parts(snapshot: Snapshot) -> tuple[Snapshot, ...]:
    return parts_of(snapshot, Planner(snapshot))[0]
