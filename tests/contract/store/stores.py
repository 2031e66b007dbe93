"""The stores that the contract is checked on, and what its tests put into them."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import boto3
import msgspec

from adapters.aws.dynamodb.table import DynamoTable
from adapters.composition.functions import Adapters
from adapters.observation.stores import Stores
from adapters.store import PLANNER, ClaimChange, Lease, Leases, PoolUsage, SweepLog
from core.lifecycle.records import ClaimRecord
from core.model.catalogue import OfferingKey
from tests.fakes.account import create_table
from tests.fakes.lab import SESSION, SETTINGS
from tests.fakes.world import FakeClock
from tests.unit.lifecycle.records_for_tests import a_plan, a_record

MINUTE = timedelta(minutes=1)
NOW = datetime.now(UTC).replace(microsecond=0)
"""Real time: DynamoDB deletes expired items by its own clock."""
KEY = OfferingKey("m5.large", "us-east-1a", "spot")


class Store(msgspec.Struct, frozen=True):
    """All of it."""

    stores: Stores
    leases: Leases
    sweeps: SweepLog

    def planner(self) -> Lease:
        lease = self.leases.acquire(PLANNER, "me", now=NOW, for_=MINUTE)
        assert lease is not None
        return lease


def dynamo(table: DynamoTable, cluster: str) -> Store:
    """The stores of a cluster as its functions have them, on this table."""
    adapters = Adapters(msgspec.structs.replace(SETTINGS, cluster_name=cluster), SESSION, FakeClock(NOW))
    adapters.table = table
    return Store(adapters.stores, adapters.leases, adapters.sweep_log)


def a_table_at(endpoint: str) -> DynamoTable:
    """A new table in DynamoDB Local."""
    session = boto3.Session(aws_access_key_id="k", aws_secret_access_key="s", region_name="us-east-1")
    client, name = session.client("dynamodb", endpoint_url=endpoint), f"contract-{uuid4()}"
    create_table(client, name)
    return DynamoTable(client, name)


def claim(name: str, *, nodes: int = 1, pool: str = "default") -> ClaimRecord:
    """A new claim that reserves this many nodes."""
    return msgspec.structs.replace(
        a_record(age=timedelta(hours=1)), name=name, plan=a_plan(node_pool=pool), reserved={"nodes": nodes, "cpu": 2000}
    )


def noise(length: int) -> str:
    """A text that cannot be compressed."""
    return secrets.token_hex(length)


def requested(store: Store, *names: str, pool: str = "default") -> list[ClaimRecord]:
    """Claims that are stored."""
    return list(store.stores.claims.request([claim(n, pool=pool) for n in names], {}, store.planner()).accepted)


def going(*claims: ClaimRecord) -> list[ClaimChange]:
    """Claims that give back their share of the limits as they start to go."""
    return [ClaimChange(record, msgspec.structs.replace(record, reserved={})) for record in claims]


def counters(store: Store, pool: str = "default") -> tuple[dict[str, int], int]:
    """What the claims of a NodePool hold."""
    by_pool = {usage.node_pool: usage for usage in store.stores.claims.usage()}
    usage = by_pool.get(pool, PoolUsage(node_pool=pool))
    return usage.reserved, usage.disrupting
