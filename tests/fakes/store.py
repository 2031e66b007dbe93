"""The simulator's table, with the real adapters over it, as tests arrange and read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, Final, Generic, TypeVar

import msgspec

from adapters.aws.brakes import DynamoBrakes
from adapters.aws.dynamodb.claims import InstanceRows, ShardedItems, UsageItems, shard_partition
from adapters.aws.dynamodb.commands import DynamoNominations
from adapters.aws.dynamodb.launch_memory import MEMORY, PARTITION
from adapters.aws.dynamodb.table import DynamoTable, RecordItems, key, number, partition_of, readable_rows
from adapters.composition.functions import Adapters
from adapters.observation.stores import Stores
from adapters.store import CLAIMS, COMMANDS, OfferingProbe, PoolUsage, SweepState
from core.approval.proposal import Proposal
from core.brakes import EngagedBrakes
from core.disruption.move_history import MoveHistory
from core.forecast import Forecast, GrowthHistory
from core.launch.denials import LaunchDenial
from core.lifecycle.metering import SpendMeter
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.model.catalogue import OfferingKey
from installation.wiring import TABLE
from tests.builders import NOW
from tests.fakes.account import FakeAccount
from tests.fakes.world import FakeClock

CLUSTER: Final = "test"

K = TypeVar("K")
R = TypeVar("R")

READS: Final = frozenset(
    {"all", "forecast", "get", "indexed", "last", "latest", "meters", "readable", "read", "refused"}
)
KINDS: Final = {**dict.fromkeys(READS | {"until", "usage"}, "read"), "of_instance": "read one", "record": "record"}
"""Method of a store → what its hooks are told; the others are writes."""

UNHOOKED: Final = frozenset({"history", "listen", "verdict_on"})

SPOILED: Final = {"body": {"S": "spoiled"}, "version": number(1)}
"""The attributes of a row that nobody can read."""


class Hooked:
    """A store whose calls can be followed, and fail, as the table's port: see `Rows`."""

    def __init__(self, store: Any, rows: Rows) -> None:
        self._store = store
        self._rows = rows

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name in UNHOOKED:
            return method
        kind = KINDS.get(name, "write")

        def call(*arguments: Any, **named: Any) -> Any:
            if arguments[:1] == (OfferingProbe(),):  # nothing was tried, so nothing ends
                return method(*arguments, **named)
            self._rows.before_call(kind)
            answer = method(*arguments, **named)
            if kind == "write":
                self._rows.after_call(kind)
            return answer

        return call


class Records(MutableMapping[K, R], Generic[K, R]):
    """The rows of one kind as records. What is written here passes no condition and no counter: a person wrote it."""

    def __init__(
        self,
        read: Callable[[], Mapping[K, R]],
        put: Callable[[K, R], object] | None = None,
        drop: Callable[[K], object] | None = None,
    ) -> None:
        self._read, self._put, self._drop = read, put, drop

    def __getitem__(self, name: K) -> R:
        return self._read()[name]

    def __setitem__(self, name: K, record: R) -> None:
        assert self._put is not None, "rows of this kind are written by functions alone"
        self._put(name, record)

    def __delitem__(self, name: K) -> None:
        assert self._drop is not None, "rows of this kind are removed by functions alone"
        if name not in self._read():
            raise KeyError(name)
        self._drop(name)

    def __iter__(self) -> Iterator[K]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def values(self) -> Any:
        return self._read().values()

    def items(self) -> Any:
        return self._read().items()

    def clear(self) -> None:
        for name in list(self._read()):
            del self[name]

    def __repr__(self) -> str:
        return repr(dict(self._read()))


class TableBrakes(DynamoBrakes):
    """The brakes in the table, which are read anew for each question."""

    def engaged(self) -> EngagedBrakes:
        return EngagedBrakes(self.read())

    def forget_reading(self) -> None:
        """Nothing is kept."""


class Rows:
    """One cluster's rows in the simulated table. They outlive the stores, as a table outlives functions.

    Each attribute holds the rows of one kind. The hooks are called for every call of a store with its kind: `read`, `write`,
    `record` for the mark of a change, and `read one` for the claim of an instance.
    """

    claims: MutableMapping[str, ClaimRecord]
    commands: MutableMapping[str, CommandRecord]
    proposals: MutableMapping[str, Proposal]
    usage: MutableMapping[str, PoolUsage]
    denials: MutableMapping[tuple[str, str], LaunchDenial]
    refused: MutableMapping[OfferingKey, datetime]
    probed: MutableMapping[OfferingKey, datetime]
    sweeps: MutableMapping[str, SweepState]
    nominated: MutableMapping[str, datetime]
    leases: Mapping[str, tuple[str, datetime | None]]
    """Name → holder, and until when."""

    def __init__(self, clock: FakeClock | None = None, account: FakeAccount | None = None) -> None:
        self.clock = clock or FakeClock(NOW)
        self.account = account or FakeAccount(clock=self.clock, spend=lambda _: None, validates=False)
        self.before_call: Callable[[str], None] = lambda _: None
        self.after_call: Callable[[str], None] = lambda _: None
        client = self.account.client("dynamodb")
        self.table = table = DynamoTable(client, self.account.table, lambda _: None)
        settings = msgspec.structs.replace(self.account.account.settings, cluster_name=CLUSTER)
        self.adapters = Adapters(settings, self.account.account.session, self.clock, pause=lambda _: None)
        self.adapters.table = table
        self.brakes = TableBrakes(table, CLUSTER, self.clock)
        self.quotas = self.adapters.quotas
        self.targets, self.leasing = Hooked(self.adapters.targets, self), Hooked(self.adapters.leases, self)
        self._claims = ShardedItems(table, CLUSTER, CLAIMS, ClaimRecord)
        self._index = InstanceRows(table, CLUSTER)
        self.claims = Records(self._present_claims, self._put_claim, self._drop_claim)
        self.commands = self._records(COMMANDS, CommandRecord)
        self.proposals = self._records("proposals", Proposal)
        denials = self._records("denials", LaunchDenial)
        self.denials = Records(
            lambda: {(denial.node_class, denial.code): denial for denial in denials.values()},
            lambda name, denial: denials.__setitem__("#".join(name), denial),
            lambda name: denials.__delitem__("#".join(name)),
        )
        counters = UsageItems(CLUSTER)
        self.usage = Records(
            lambda: {usage.node_pool: usage for usage in self.adapters.claims.usage()},
            lambda _, usage: table.put(counters.item(usage)),
            lambda name: table.delete(counters.partition, name),
        )
        self._arrange_offerings()
        self._arrange_marks()

    def __setattr__(self, name: str, value: Any) -> None:
        """Replace the rows of a kind by those of a mapping."""
        present = self.__dict__.get(name)
        if isinstance(present, Records):
            present.clear()
            present.update(value)
        else:
            super().__setattr__(name, value)

    def stores(self, brakes: TableBrakes | None = None) -> Stores:
        """The stores of one cluster, as a sandbox has them."""
        return self.hooked(self.adapters.stores, brakes or self.brakes)

    def hooked(self, stores: Stores, brakes: Any) -> Stores:
        """The same stores with these brakes, whose calls are followed."""
        unhooked = {"brakes": brakes, "breakers": self.brakes, "quotas": self.quotas, "unreadable": stores.unreadable}
        names = (name for name in Stores.__struct_fields__ if name not in unhooked)
        return msgspec.structs.replace(
            stores, **unhooked, **{name: Hooked(getattr(stores, name), self) for name in names}
        )

    def spoil(self, kind: str, name: str) -> None:
        """Make the row unreadable, as a person may who edits it."""
        partition = partition_of(CLUSTER, kind) if kind != CLAIMS else shard_partition(CLUSTER, CLAIMS, name)
        self.table.put({**key(partition, name), **SPOILED, TABLE.expiry: number(int(NOW.timestamp()) + 10**8)})

    @property
    def spoiled(self) -> list[str]:
        """The names of the rows that were made unreadable and are still there."""
        items = self.account.account.table.all()
        return [item[TABLE.sort_key]["S"] for item in items if item.get("body") == SPOILED["body"]]

    def unindex(self, instance_id: str) -> None:
        """Lose the row by which the instance's claim is found."""
        self.table.delete(partition_of(CLUSTER, "instances"), instance_id)

    @property
    def moves(self) -> MoveHistory:
        return self.adapters.stores.moves.readable(self.clock.now())

    @moves.setter
    def moves(self, moves: MoveHistory) -> None:
        partition = partition_of(CLUSTER, "moves")
        for item in list(self.table.query(partition)):
            self.table.delete(partition, item[TABLE.sort_key]["S"])
        self.adapters.stores.moves.write(moves, self.clock.now())

    @property
    def changed_at(self) -> datetime | None:
        return self.adapters.stores.changes.last()

    @changed_at.setter
    def changed_at(self, moment: datetime) -> None:
        self.adapters.stores.changes.record(moment)

    @property
    def meters(self) -> dict[str, SpendMeter]:
        return self.adapters.claims.meters()

    @property
    def pod_ends(self) -> dict[str, datetime]:
        return self.adapters.pod_ends.latest(self.clock.now())

    @property
    def forecast(self) -> Forecast | None:
        return self.adapters.stores.forecasts.forecast()

    @property
    def growth(self) -> GrowthHistory | None:
        return self.adapters.stores.forecasts.history()

    @growth.setter
    def growth(self, history: GrowthHistory) -> None:
        self.adapters.stores.forecasts.write_history(history)

    def _records(self, kind: str, type_: Any) -> Records[str, Any]:
        items: RecordItems[Any] = RecordItems(self.table, partition_of(CLUSTER, kind), type_)
        return Records(
            lambda: dict(items.named()),
            lambda name, record: self.table.put(items.item(name, record)),
            lambda name: self.table.delete(items.partition, name),
        )

    def _present_claims(self) -> dict[str, ClaimRecord]:
        """The readable claims by name, without the eight queries that a list takes."""
        prefix = partition_of(CLUSTER, CLAIMS) + "#"
        items = [item for item in self.account.account.table.all() if item[TABLE.partition_key]["S"].startswith(prefix)]
        names = sorted(item[TABLE.sort_key]["S"] for item in items if item["body"] != SPOILED["body"])
        return {name: record for name in names if (record := self._claims.get(name)) is not None}

    def _put_claim(self, name: str, record: ClaimRecord) -> None:
        assert name == record.name
        self.table.put(self._claims.item(name, record))
        if record.instance_id:
            self._index.add(record)

    def _drop_claim(self, name: str) -> None:
        record = self._claims.get(name)
        if record is not None and self._index.claim_of(record.instance_id or "none") == name:
            self.unindex(record.instance_id)
        self.table.delete(self._claims.partition(name), name)

    def _arrange_offerings(self) -> None:
        table = self.table

        def moments(attribute: str) -> dict[OfferingKey, datetime]:
            rows = readable_rows(table, PARTITION, lambda item: item.get(attribute, {}).get("N"))
            return {
                OfferingKey(*sort.split("#")): datetime.fromtimestamp(int(seconds), UTC)
                for sort, seconds in rows.items()
                if seconds is not None
            }

        def refuse(offering: OfferingKey, until: datetime) -> None:
            times = {"until": _seconds(until), TABLE.expiry: _seconds(until + MEMORY)}
            table.put({**key(PARTITION, _sort(offering)), "refusals": number(1), **times})

        def probe(offering: OfferingKey, until: datetime) -> None:
            item = table.get(PARTITION, _sort(offering)) or {}
            table.put({**item, "probing_until": _seconds(until)})

        def end_probe(offering: OfferingKey) -> None:
            item = table.get(PARTITION, _sort(offering)) or {}
            table.put({name: value for name, value in item.items() if name != "probing_until"})

        self.refused = Records(
            lambda: moments("until"), refuse, lambda offering: table.delete(PARTITION, _sort(offering))
        )
        self.probed = Records(lambda: moments("probing_until"), probe, end_probe)

    def _arrange_marks(self) -> None:
        log, nominations = self.adapters.sweep_log, DynamoNominations(self.table, CLUSTER)

        def without(name: str) -> dict[str, SweepState]:
            return {sweep: state for sweep, state in log.read().items() if sweep != name}

        self.sweeps = Records(
            log.read,
            lambda name, state: log.write({**log.read(), name: state}),
            lambda name: log.write(without(name)),
        )
        self.nominated = Records(
            lambda: nominations.until(datetime.min.replace(tzinfo=UTC)),
            lambda name, until: nominations.nominate([name], now=self.clock.now(), until=until),
        )
        self.leases = Records(
            lambda: {
                item[TABLE.sort_key]["S"]: (item["owner"]["S"], _held_until(item))
                for item in self.table.query(partition_of(CLUSTER, "leases"))
            }
        )


def _held_until(item: Mapping[str, Any]) -> datetime | None:
    held = item.get("held_until")
    return None if held is None else datetime.fromtimestamp(int(held["N"]) / 1000, UTC)


def _sort(offering: OfferingKey) -> str:
    return "#".join(msgspec.structs.astuple(offering)).removesuffix("#")


def _seconds(moment: datetime) -> dict[str, str]:
    return number(int(moment.timestamp()))
