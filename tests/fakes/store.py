"""The table's ports in memory. The same contract tests run on these and on DynamoDB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from adapters.observation.stores import Stores
from adapters.ports import ConflictError
from adapters.store import (
    ClaimChange,
    CommandChange,
    Disrupted,
    Lease,
    OfferingProbe,
    PoolUsage,
    RefusedOfferings,
    Requested,
    SweepState,
    UnreadableRow,
    UnreadableRowError,
)
from core.approval.proposal import Proposal, ProposalVerdict, deciding
from core.disruption.move_history import MoveHistory
from core.disruption.target.stored import decode, encode
from core.forecast import Forecast, GrowthHistory
from core.launch.denials import PROBE, LaunchDenial
from core.lifecycle.metering import SpendMeter
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.model.catalogue import OfferingKey
from core.model.plan import StoredTarget
from core.model.values import quantity
from tests.fakes.account import FakeBrakes, MemoryQuotas


class Rows:
    """The stored rows. They outlive the stores, as a table outlives functions; hooks are called for every call."""

    def __init__(self) -> None:
        self.claims: dict[str, ClaimRecord] = {}
        self.commands: dict[str, CommandRecord] = {}
        self.proposals: dict[str, Proposal] = {}
        self.verdicts: dict[tuple[str, str, str], ProposalVerdict] = {}
        self.unindexed: set[str] = set()
        self.usage: dict[str, PoolUsage] = {}
        self.meters: dict[str, SpendMeter] = {}
        self.leases: dict[str, tuple[str, int, datetime | None]] = {}
        self.refused: dict[OfferingKey, datetime] = {}
        self.probed: dict[OfferingKey, datetime] = {}
        self.nominated: dict[str, datetime] = {}
        self.denials: dict[tuple[str, str], LaunchDenial] = {}
        self.sweeps: dict[str, SweepState] = {}
        self.moves = MoveHistory()
        self.target: bytes | None = None
        self.changed_at: datetime | None = None
        self.pod_ends: dict[str, datetime] = {}
        self.quotas = MemoryQuotas()
        self.growth: GrowthHistory | None = None
        self.forecast: Forecast | None = None
        self.unreadable: dict[str, UnreadableRow] = {}
        self.before_call: Callable[[str], None] = lambda _: None
        self.after_call: Callable[[str], None] = lambda _: None

    def stores(self, brakes: FakeBrakes) -> Stores:
        """The stores of one cluster."""
        return Stores(
            claims=MemoryClaims(self),
            commands=MemoryCommands(self),
            unavailable=MemoryOfferings(self),
            denials=MemoryDenials(self),
            nominations=MemoryNominations(self),
            changes=MemoryChanges(self),
            pod_ends=MemoryPodEnds(self),
            moves=MemoryMoves(self),
            brakes=brakes,
            breakers=brakes,
            quotas=self.quotas,
            unreadable=MemoryUnreadableRows(self),
            forecasts=MemoryForecasts(self),
        )


class MemoryForecasts:
    """`adapters.store.ForecastStore`."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def history(self) -> GrowthHistory | None:
        return self._rows.growth

    def write_history(self, history: GrowthHistory) -> None:
        self._rows.before_call("write")
        self._rows.growth = history

    def forecast(self) -> Forecast | None:
        self._rows.before_call("read")
        return self._rows.forecast

    def write_forecast(self, forecast: Forecast) -> None:
        self._rows.before_call("write")
        self._rows.forecast = forecast


class MemoryUnreadableRows:
    """`adapters.store.UnreadableRows`."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def all(self) -> tuple[UnreadableRow, ...]:
        return tuple(row for _, row in sorted(self._rows.unreadable.items()))


class MemoryChanges:
    """`adapters.store.Changes`."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def last(self) -> datetime | None:
        self._rows.before_call("read")
        return self._rows.changed_at

    def record(self, now: datetime) -> None:
        self._rows.before_call("record")
        self._rows.changed_at = now


class MemoryPodEnds:
    """`adapters.store.PodEnds`."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def latest(self, now: datetime) -> dict[str, datetime]:
        self._rows.before_call("read")
        return {node: at for node, at in self._rows.pod_ends.items() if now - at < timedelta(hours=3)}

    def record(self, ended: Mapping[str, datetime], now: datetime) -> None:
        self._rows.before_call("write")
        for node, at in ended.items():
            self._rows.pod_ends[node] = max(at, self._rows.pod_ends.get(node, at))
        self._rows.after_call("write")


class MemoryTargets:
    """`adapters.store.Targets`."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def read(self) -> StoredTarget | None:
        self._rows.before_call("read")
        return None if self._rows.target is None else decode(self._rows.target)

    def write(self, target: StoredTarget | None) -> None:
        self._rows.before_call("write")
        self._rows.target = None if target is None else encode(target)
        self._rows.after_call("write")


class MemoryClaims:
    """`adapters.store.ClaimStore`."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def all(self) -> tuple[ClaimRecord, ...]:
        self._rows.before_call("read")
        return tuple(
            self._rows.claims[name] for name in sorted(self._rows.claims.keys() - self._rows.unreadable.keys())
        )

    def get(self, name: str) -> ClaimRecord | None:
        self._rows.before_call("read")
        if name in self._rows.unreadable:
            raise UnreadableRowError("store", self._rows.unreadable[name])
        return self._rows.claims.get(name)

    def of_instance(self, instance_id: str) -> ClaimRecord | None:
        self._rows.before_call("read one")
        found = (record for record in self._rows.claims.values() if record.instance_id == instance_id)
        record = next(found, None) if instance_id not in self._rows.unindexed else None
        return self.get(record.name) if record is not None else None

    def indexed(self) -> frozenset[str]:
        self._rows.before_call("read")
        known = {record.instance_id for record in self._rows.claims.values() if record.machine is not None}
        return frozenset(known - self._rows.unindexed)

    def index(self, claim: ClaimRecord) -> None:
        self._rows.before_call("write")
        self._rows.unindexed.discard(claim.instance_id)
        self._rows.after_call("write")

    def request(
        self, claims: Sequence[ClaimRecord], limits: Mapping[str, Mapping[str, int]], lease: Lease | None
    ) -> Requested:
        self._rows.before_call("write")
        accepted, refused = [], []
        for claim in claims:
            if lease is not None and self._rows.leases[lease.name][1] != lease.fence:
                raise ConflictError("store", "the lease is another's")
            stored = self._rows.claims.get(claim.name)
            new = msgspec.structs.replace(claim, version=1)
            if stored is not None:
                (accepted if stored.token == claim.token else refused).append(new)
            elif not all(self._has_room(counter, claim.reserved_in(counter), limits) for counter in claim.counters):
                refused.append(new)
            else:
                self._rows.claims[claim.name] = new
                self._move(None, new)
                accepted.append(new)
        self._rows.after_call("write")
        return Requested(tuple(accepted), tuple(refused))

    def restore(self, claim: ClaimRecord) -> ClaimRecord | None:
        self._rows.before_call("write")
        if claim.name in self._rows.claims:
            return None
        first = msgspec.structs.replace(claim, version=1)
        self._rows.claims[claim.name] = first
        self._move(None, first)
        self._rows.after_call("write")
        return first

    def discard_unreadable(self, name: str) -> None:
        self._rows.before_call("write")
        if self._rows.unreadable.pop(name, None) is not None:
            del self._rows.claims[name]
        self._rows.after_call("write")

    def change(self, before: ClaimRecord, after: ClaimRecord) -> ClaimRecord:
        self._rows.before_call("write")
        self._expect(before)
        stored = msgspec.structs.replace(after, version=before.version + 1)
        others = (record for record in self._rows.claims.values() if record.name != before.name)
        is_launched = stored.machine is not None and before.machine is None and stored.shares > 1
        if is_launched and any(record.instance_id == stored.instance_id for record in others):
            raise ConflictError("store", f"{stored.instance_id} is another claim's")
        self._rows.claims[before.name] = stored
        self._move(before, stored)
        self._rows.after_call("write")
        return stored

    def change_within(
        self, before: ClaimRecord, after: ClaimRecord, limits: Mapping[str, Mapping[str, int]]
    ) -> ClaimRecord | None:
        self._expect(before)
        for counter in after.counters:
            grown = quantity.subtract(after.reserved_in(counter), before.reserved_in(counter))
            used = quantity.add(self._used(counter).reserved, grown)
            bounds = limits.get(counter, {})
            if any(grown.get(name, 0) > 0 and used.get(name, 0) > limit for name, limit in bounds.items()):
                return None
        return self.change(before, after)

    def disrupt(
        self,
        claims: Sequence[ClaimChange],
        bounds: Mapping[str, int],
        *,
        command: CommandChange | None = None,
        lease: Lease | None = None,
    ) -> Disrupted:
        self._rows.before_call("write")
        if lease is not None and self._rows.leases[lease.name][1] != lease.fence:
            raise ConflictError("store", "the lease is another's")
        for change in claims:
            self._expect(change.before)
        if command is not None:
            expect_command(self._rows, command.before)
        spent = self._spent(claims, bounds)
        if spent:
            return Disrupted((), None, spent)
        stored = [
            msgspec.structs.replace(change.after, is_disrupting=True, version=change.before.version + 1)
            for change in claims
        ]
        for change, record in zip(claims, stored, strict=True):
            self._rows.claims[record.name] = record
            self._move(change.before, record)
        moved = None
        if command is not None:
            moved = msgspec.structs.replace(command.after, version=command.before.version + 1)
            self._rows.commands[moved.id] = moved
        self._rows.after_call("write")
        return Disrupted(tuple(stored), moved)

    def _spent(self, claims: Sequence[ClaimChange], bounds: Mapping[str, int]) -> tuple[str, ...]:
        new = [change.before.plan.node_pool for change in claims if not change.before.is_disrupting]
        return tuple(
            pool
            for pool in sorted(set(new))
            if pool in bounds and self._used(pool).disrupting + new.count(pool) > bounds[pool]
        )

    def forget(self, record: ClaimRecord, costs: Mapping[str, int] = {}) -> None:
        self._rows.before_call("write")
        if record.name in self._rows.claims:
            self._expect(record)
            del self._rows.claims[record.name]
            self._move(record, None)
            for cap, amount in costs.items():
                meter = self._meter(cap)
                self._rows.meters[cap] = msgspec.structs.replace(meter, ended=meter.ended + amount)
        self._rows.after_call("write")

    def meters(self) -> dict[str, SpendMeter]:
        self._rows.before_call("read")
        return dict(sorted(self._rows.meters.items()))

    def read_meter(self, cap: str, period: str, since: datetime, reading: int) -> None:
        self._rows.before_call("write")
        meter = self._meter(cap)
        if period not in meter.readings or meter.readings[period][0] < since:
            readings = {**meter.readings, period: (since, reading)}
            self._rows.meters[cap] = msgspec.structs.replace(meter, readings=readings)
        self._rows.after_call("write")

    def _meter(self, cap: str) -> SpendMeter:
        return self._rows.meters.get(cap, SpendMeter(cap=cap))

    def usage(self) -> tuple[PoolUsage, ...]:
        self._rows.before_call("read")
        return tuple(self._rows.usage[pool] for pool in sorted(self._rows.usage))

    def recount(self, before: PoolUsage, after: PoolUsage) -> None:
        self._rows.before_call("write")
        if self._used(before.node_pool).version != before.version:
            raise ConflictError("store", f"counters of {before.node_pool} have moved")
        self._rows.usage[before.node_pool] = msgspec.structs.replace(
            after, node_pool=before.node_pool, version=before.version + 1
        )
        self._rows.after_call("write")

    def _has_room(self, counter: str, reserved: Mapping[str, int], limits: Mapping[str, Mapping[str, int]]) -> bool:
        used = quantity.add(self._used(counter).reserved, reserved)
        return all(used.get(name, 0) <= limit for name, limit in limits.get(counter, {}).items())

    def _used(self, pool: str) -> PoolUsage:
        return self._rows.usage.get(pool, PoolUsage(node_pool=pool))

    def _expect(self, record: ClaimRecord) -> None:
        stored = self._rows.claims.get(record.name)
        if stored is None or stored.version != record.version:
            raise ConflictError("store", f"claim {record.name} has changed")

    def _move(self, before: ClaimRecord | None, after: ClaimRecord | None) -> None:
        if _holds(before) == _holds(after):
            return
        claim = next(record for record in (before, after) if record is not None)
        had, has = _holds(before)[1], _holds(after)[1]
        for counter in claim.counters:
            old, new = (record.reserved_in(counter) if record is not None else {} for record in (before, after))
            used = self._used(counter)
            reserved = quantity.add(quantity.subtract(used.reserved, old), new)
            self._rows.usage[counter] = PoolUsage(
                node_pool=counter,
                reserved={name: amount for name, amount in sorted(reserved.items()) if amount},
                disrupting=used.disrupting + (has - had if counter == claim.plan.node_pool else 0),
                version=used.version + 1,
            )


def _holds(record: ClaimRecord | None) -> tuple[dict[str, int], int]:
    return (record.reserved, int(record.is_disrupting)) if record is not None else ({}, 0)


def expect_command(rows: Rows, record: CommandRecord) -> None:
    stored = rows.commands.get(record.id)
    if stored is None or stored.version != record.version:
        raise ConflictError("store", f"command {record.id} has changed")


class MemoryCommands:
    """`adapters.store.CommandStore`."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def all(self) -> tuple[CommandRecord, ...]:
        for row in self._rows.unreadable.values():
            if row.is_command:
                raise UnreadableRowError("store", row)
        return self.readable()

    def readable(self) -> tuple[CommandRecord, ...]:
        self._rows.before_call("read")
        return tuple(
            self._rows.commands[name] for name in sorted(self._rows.commands.keys() - self._rows.unreadable.keys())
        )

    def get(self, command_id: str) -> CommandRecord | None:
        self._rows.before_call("read")
        return self._rows.commands.get(command_id)

    def add(self, record: CommandRecord) -> None:
        self._rows.before_call("write")
        if record.id in self._rows.commands:
            raise ConflictError("store", f"command {record.id} exists")
        self._rows.commands[record.id] = msgspec.structs.replace(record, version=1)
        self._rows.after_call("write")

    def change(self, before: CommandRecord, after: CommandRecord) -> CommandRecord:
        self._rows.before_call("write")
        expect_command(self._rows, before)
        self._rows.commands[before.id] = msgspec.structs.replace(after, version=before.version + 1)
        self._rows.after_call("write")
        return self._rows.commands[before.id]

    def remove(self, record: CommandRecord) -> None:
        self._rows.before_call("write")
        if record.id in self._rows.commands:
            expect_command(self._rows, record)
            del self._rows.commands[record.id]
        self._rows.after_call("write")


class MemoryProposals:
    """`adapters.store.ProposalStore`."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def all(self) -> tuple[Proposal, ...]:
        self._rows.before_call("read")
        found = [self._rows.proposals[name] for name in sorted(self._rows.proposals)]
        return tuple(
            msgspec.structs.replace(one, verdict=self.verdict_on(one)) if one.end is None else one for one in found
        )

    def add(self, proposal: Proposal) -> Proposal:
        self._rows.before_call("write")
        if proposal.id in self._rows.proposals:
            raise ConflictError("store", f"proposal {proposal.id} exists")
        self._rows.proposals[proposal.id] = msgspec.structs.replace(proposal, version=1)
        self._rows.after_call("write")
        return self._rows.proposals[proposal.id]

    def change(self, before: Proposal, after: Proposal) -> Proposal:
        self._rows.before_call("write")
        if self._rows.proposals[before.id].version != before.version:
            raise ConflictError("store", f"proposal {before.id} has changed")
        self._rows.proposals[before.id] = msgspec.structs.replace(after, version=before.version + 1)
        self._rows.after_call("write")
        return self._rows.proposals[before.id]

    def answer(self, proposal: Proposal, verdict: ProposalVerdict) -> None:
        self._rows.before_call("write")
        self._rows.verdicts[proposal.id, proposal.digest, verdict.by] = verdict
        self._rows.after_call("write")

    def verdict_on(self, proposal: Proposal) -> ProposalVerdict | None:
        said = self._rows.verdicts.items()
        return deciding(verdict for key, verdict in said if key[:2] == (proposal.id, proposal.digest))


class MemoryLeases:
    """`adapters.store.Leases`."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def acquire(self, name: str, owner: str, *, now: datetime, for_: timedelta) -> Lease | None:
        self._rows.before_call("write")
        holder, fence, until = self._rows.leases.get(name, ("", 0, None))
        if until is not None and until > now and holder != owner:
            return None
        fence = max(fence + 1, int(now.timestamp() * 1000))
        self._rows.leases[name] = (owner, fence, now + for_)
        self._rows.after_call("write")
        return Lease(name, fence)

    def release(self, lease: Lease) -> None:
        self._rows.before_call("write")
        holder, fence, _ = self._rows.leases[lease.name]
        if fence == lease.fence:
            self._rows.leases[lease.name] = (holder, fence, None)
        self._rows.after_call("write")


HALF_OPEN = timedelta(hours=1)


class MemoryOfferings:
    """`adapters.store.UnavailableOfferings`, with one pause for all refusals."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def refused(self, now: datetime) -> RefusedOfferings:
        self._rows.before_call("read")
        return self._refused(now)

    def _refused(self, now: datetime) -> RefusedOfferings:
        known, probed = self._rows.refused, self._rows.probed
        avoided = frozenset(key for key, until in known.items() if until > now or probed.get(key, now) > now)
        half_open = (key for key, until in known.items() if key not in avoided and until + HALF_OPEN > now)
        return RefusedOfferings(avoided, frozenset(half_open))

    def mark(self, keys: Iterable[OfferingKey], now: datetime, choices: int | None = None) -> None:
        self._rows.before_call("write")
        marked = dict.fromkeys(keys, now + timedelta(minutes=3))
        self._rows.refused |= marked
        self._rows.probed = {key: until for key, until in self._rows.probed.items() if key not in marked}
        self._rows.after_call("write")

    def probe(self, keys: Iterable[OfferingKey], now: datetime) -> OfferingProbe:
        self._rows.before_call("write")
        found, until = frozenset(keys) & self._refused(now).half_open, now + PROBE
        self._rows.probed |= dict.fromkeys(found, until)
        self._rows.after_call("write")
        return OfferingProbe(found, until)

    def end(self, probe: OfferingProbe, launched: Iterable[OfferingKey]) -> None:
        if probe.until is None:
            return
        self._rows.before_call("write")
        works = frozenset(launched)
        for key in sorted(probe.offerings):
            if self._rows.probed.get(key) == probe.until:
                del self._rows.probed[key]
                if key in works:
                    del self._rows.refused[key]
        self._rows.after_call("write")


class MemoryDenials:
    """`adapters.store.LaunchDenials`."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def all(self) -> tuple[LaunchDenial, ...]:
        self._rows.before_call("read")
        return tuple(denial for _, denial in sorted(self._rows.denials.items()))

    def change(self, before: LaunchDenial | None, after: LaunchDenial) -> LaunchDenial:
        self._rows.before_call("write")
        self._expect(after, before.version if before is not None else 0)
        stored = msgspec.structs.replace(after, version=(before.version if before is not None else 0) + 1)
        self._rows.denials[after.node_class, after.code] = stored
        self._rows.after_call("write")
        return stored

    def remove(self, denial: LaunchDenial) -> None:
        self._rows.before_call("write")
        if (denial.node_class, denial.code) in self._rows.denials:
            self._expect(denial, denial.version)
            del self._rows.denials[denial.node_class, denial.code]
        self._rows.after_call("write")

    def _expect(self, denial: LaunchDenial, version: int) -> None:
        known = self._rows.denials.get((denial.node_class, denial.code))
        if (known.version if known is not None else 0) != version:
            raise ConflictError("write", f"denial {denial.node_class} {denial.code}")


class MemoryNominations:
    """`adapters.store.Nominations`."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def until(self, now: datetime) -> dict[str, datetime]:
        self._rows.before_call("read")
        return {name: moment for name, moment in sorted(self._rows.nominated.items()) if moment > now}

    def nominate(self, names: Iterable[str], *, now: datetime, until: datetime) -> None:
        self._rows.before_call("write")
        self._rows.nominated = self.until(now) | dict.fromkeys(names, until)
        self._rows.after_call("write")


class MemoryMoves:
    """`adapters.store.MoveHistoryStore`."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def read(self, now: datetime) -> MoveHistory:
        found = self.readable(now)
        for name, row in sorted(self._rows.unreadable.items()):
            if name.startswith(("rollout#", "failed#")):
                raise UnreadableRowError("dynamodb:Query", row)
        return found

    def readable(self, now: datetime) -> MoveHistory:
        self._rows.before_call("read")
        return self._rows.moves

    def write(self, changed: MoveHistory, now: datetime) -> None:
        self._rows.before_call("write")
        self._rows.moves = MoveHistory(
            workloads=self._rows.moves.workloads | changed.workloads,
            outcomes=self._rows.moves.outcomes | changed.outcomes,
            failures=self._rows.moves.failures | changed.failures,
            rollouts=self._rows.moves.rollouts | changed.rollouts,
            evicted_nodes=self._rows.moves.evicted_nodes | changed.evicted_nodes,
        )
        self._rows.after_call("write")


class MemorySweeps:
    """`adapters.store.SweepLog`."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def read(self) -> dict[str, SweepState]:
        self._rows.before_call("read")
        return dict(self._rows.sweeps)

    def write(self, states: Mapping[str, SweepState]) -> None:
        self._rows.before_call("write")
        self._rows.sweeps = dict(states)
        self._rows.after_call("write")
