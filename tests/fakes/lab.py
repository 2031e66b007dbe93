"""Controllers over a fake world, wired as in the functions; and the table on moto for tests of the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, cast

import boto3
import msgspec
from moto import mock_aws

from adapters.composition.functions import Adapters
from adapters.ledger import LedgerWriter
from adapters.messages import chain_ends_at, woken_by
from adapters.ports import FunctionQueues, JsonObject
from adapters.run_report import RunReport
from adapters.runtime import TaskRunners, in_turn
from adapters.store import ObservedClaims
from core import labels
from core.catalogue.free_addresses import written_reading
from core.catalogue.node_class import AddressReading
from core.lifecycle.records import ClaimRecord
from core.manifests.wire import resources
from core.model.catalogue import Catalogue, InstanceType
from installation.settings import Settings
from lambdas.application.controllers import Application
from tests.builders import NOW, a_class_manifest, a_type
from tests.fakes.account import create_table
from tests.fakes.store import CLUSTER, Hooked, Rows
from tests.fakes.world import (
    FakeCatalogues,
    FakeClock,
    FakeCloud,
    FakeKubernetes,
    FakeQueue,
    FakeTopic,
    FakeWindows,
    MemoryObjects,
)

SETTINGS = Settings(
    cluster_name=CLUSTER,
    table_name="fleetwright",
    bucket_name="bucket",
    wake_up_queue_url="https://queue/wake-ups",
    work_queue_url="https://queue/work",
    look_queue_url="https://queue/looks",
    schedule_group="windows",
    schedule_role_arn="arn:aws:iam::123456789012:role/windows",
)


SESSION = boto3.Session(region_name="us-east-1")
"""Nothing is asked of it; to make one takes longer than most of what a test does."""


@contextmanager
def aws() -> Iterator[boto3.Session]:
    """An empty account with our table in it."""
    with mock_aws():
        session = boto3.Session(aws_access_key_id="k", aws_secret_access_key="s", region_name="us-east-1")
        create_table(session.client("dynamodb"), SETTINGS.table_name)
        yield session


class LabAdapters(Adapters):
    """Fakes in place of the application's AWS adapters."""

    def __init__(self, lab: Lab) -> None:
        super().__init__(
            lab.settings,
            SESSION,
            lab.clock,
            kubernetes=lab.kubernetes,
            catalogues=FakeCatalogues(Catalogue(default=lab.types)),
            pause=lab.clock.pause,
            run_tasks=TaskRunners(in_turn, in_turn),
        )
        rows = lab.rows
        self.table, self.quotas = rows.table, rows.quotas
        self.brakes = self.brake_rows = rows.brakes
        stores = rows.hooked(self.stores, rows.brakes)
        self.claims = ObservedClaims(stores.claims)
        self.stores = msgspec.structs.replace(stores, claims=self.claims)
        self.pod_ends = cast(Any, stores.pod_ends)
        self.targets, self.proposals, self.leases, self.sweep_log = (
            cast(Any, Hooked(store, rows)) for store in (self.targets, self.proposals, self.leases, self.sweep_log)
        )
        self.approval_topic = lab.topic
        self.command_topic = lab.command_topic
        self.cloud = lab.cloud
        self.queues = FunctionQueues(wake_ups=lab.wake_ups, work=lab.work, run_requests=lab.run_requests)
        self.windows = lab.windows
        self.ledger = LedgerWriter(
            lab.ledger if lab.settings.keep_ledger else None, lab.settings.cluster_name, lab.clock
        )


class Lab:
    """One cluster for tests of controllers. `boot` and `tick` act as kubelet, queue and clock."""

    def __init__(self, *, types: tuple[InstanceType, ...] = (), **settings: Any) -> None:
        self.settings = msgspec.structs.replace(SETTINGS, **settings)
        self.types = types or (a_type("m5.large"), a_type("m5.xlarge", cpu="4", memory="16Gi", price=0.2))
        self.clock = FakeClock(NOW)
        self.kubernetes = FakeKubernetes(self.clock)
        self.rows = Rows(self.clock)
        self.brakes = self.rows.brakes
        self.ledger = MemoryObjects()
        self.topic = FakeTopic()
        self.command_topic = FakeTopic()
        self.cloud = FakeCloud(self.clock)
        self.wake_ups, self.work, self.run_requests = FakeQueue(), FakeQueue(), FakeQueue()
        self.windows = FakeWindows()
        self.app = Application(LabAdapters(self))
        self.kubernetes.put(a_class_manifest(metadata={"generation": 1}), a_node_pool())

    def restart(self) -> None:
        """A new sandbox, as after a crash."""
        self.app = Application(LabAdapters(self))

    @property
    def claims(self) -> tuple[ClaimRecord, ...]:
        return tuple(self.rows.claims.values())

    @property
    def claim(self) -> ClaimRecord:
        (only,) = self.claims
        return only

    def provision(self, *messages: JsonObject) -> RunReport:
        """Run with these messages of the queue, or from the schedule without any."""
        report, now = RunReport(), self.clock.now()
        bodies = [{"body": msgspec.json.encode(message).decode()} for message in messages]
        event: JsonObject = {"Records": bodies} if bodies else {}
        until = chain_ends_at(event, now)
        deadline = now + timedelta(minutes=1)
        self.app.provisioning.run(report, owner=f"request-{now}", deadline=deadline, until=until, cause=woken_by(event))
        return report

    def disrupt(self, *, time: timedelta | None = None, is_woken: bool = False) -> RunReport:
        report = RunReport()
        deadline = self.clock.now() + (time or timedelta(minutes=5))
        self.app.disruption.run(report, owner=f"request-{self.clock.now()}", deadline=deadline, is_woken=is_woken)
        return report

    def reconcile(self, *, time: timedelta | None = None) -> RunReport:
        report = RunReport()
        self.app.reconciliation.run(report, deadline=self.clock.now() + (time or timedelta(minutes=2)))
        return report

    def execute(self, *messages: JsonObject, deliveries: int = 1) -> RunReport:
        """Handle these messages, or those in the work queue; `receives` is how often SQS has delivered them."""
        report = RunReport()
        bodies = messages or tuple(self.work.take())
        attributes = {"ApproximateReceiveCount": str(deliveries)}
        records = [
            {"messageId": str(i), "body": msgspec.json.encode(body).decode(), "attributes": attributes}
            for i, body in enumerate(bodies)
        ]
        self.app.execution.run(records, report, deadline=self.clock.now() + timedelta(minutes=1))
        return report

    def interrupt(self, kind: str = "EC2 Spot Instance Interruption Warning", **detail: Any) -> RunReport:
        """Deliver an event of EC2 about the instance of the one claim."""
        report = RunReport()
        event = {"source": "aws.ec2", "detail-type": kind, "detail": {"instance-id": self.claim.instance_id, **detail}}
        self.app.interruptions.run(event, report)
        return report

    def taints(self) -> list[str]:
        """Return the keys of the taints of the one node."""
        (node,) = self.kubernetes.names(resources.NODES)
        return [taint["key"] for taint in self.kubernetes.raw(resources.NODES, node)["spec"]["taints"]]

    def boot(self) -> None:
        """Let a kubelet join for every instance that has none, ready at once."""
        known = {
            self.kubernetes.raw(resources.NODES, name)["spec"]["providerID"]
            for name in self.kubernetes.names(resources.NODES)
        }
        for instance in self.cloud.instances():
            if instance.provider_id not in known:
                self.kubernetes.put(a_joining_node(instance.instance_id, instance.provider_id))

    def tick(self, times: int = 1, **span: float) -> list[RunReport]:
        """Advance the clock and handle the messages of the work queue, this many times."""
        reports = []
        for _ in range(times):
            self.clock.advance(**(span or {"seconds": 5}))
            reports.append(self.execute())
        return reports

    def settle(self) -> None:
        """Launch, join, register, initialize."""
        self.provision()
        self.boot()
        self.tick(4)

    def set_addresses(self, free: Mapping[str, int]) -> None:
        """Give the EC2NodeClass `default` subnets, which are named after their zone and a letter, with few free addresses."""
        reading = AddressReading(read_at=self.clock.now(), free=dict(free))
        body = {
            "metadata": {"annotations": {labels.SUBNET_ADDRESSES: written_reading(reading, "")}},
            "status": {"subnets": [{"id": subnet, "zone": subnet[:-1]} for subnet in free]},
        }
        self.kubernetes.amend(resources.EC2_NODE_CLASSES, "default", body)

    def bind(self, *pods: str) -> None:
        """Act as the scheduler: bind the pods to the only node."""
        (node,) = self.kubernetes.names(resources.NODES)
        for pod in pods:
            body = {"spec": {"nodeName": node}, "status": {"phase": "Running", "conditions": []}}
            self.kubernetes.amend(resources.PODS, pod, body, namespace="default")


def a_node_pool(name: str = "default", **spec: Any) -> JsonObject:
    """A NodePool of the class, with `spec` merged into its own."""
    template = {
        "requirements": [{"key": labels.OS, "operator": "In", "values": ["linux"]}],
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        **spec.pop("template", {}),
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name, "generation": 1, **spec.pop("metadata", {})},
        "spec": {"template": {"spec": template}, **spec},
    }


def a_capping(limits: JsonObject, pods: JsonObject | None = None, **cap: Any) -> JsonObject:
    """A Calendar with the cap `costs/all` over all NodePools."""
    entry = {"name": "all", "limits": limits, **({"pods": pods} if pods else {}), **cap}
    meta = {"name": "costs"}
    return {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Calendar",
        "metadata": meta,
        "spec": {"caps": [entry]},
    }


def a_pending_pod(name: str, *, cpu: str = "1", **changes: Any) -> JsonObject:
    """A pod that the scheduler has marked unschedulable."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **changes.pop("metadata", {})},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}], **changes},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        },
    }


def a_joining_node(name: str, provider_id: str) -> JsonObject:
    """A node as its kubelet registers it, ready at once."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"providerID": provider_id, "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]},
        "status": {
            "capacity": {"cpu": "4", "memory": "16Gi", "pods": "29"},
            "allocatable": {"cpu": "4", "memory": "16Gi", "pods": "29"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
