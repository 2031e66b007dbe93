"""All real parts together: started once, played on by one scenario after the other."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from adapters.aws.dynamodb.claims import DynamoClaims
from adapters.aws.dynamodb.commands import DynamoCommands
from adapters.aws.dynamodb.table import DynamoTable, partition_of
from adapters.ports import JsonObject, NotFoundError
from core.api import crds
from core.lifecycle.records import CommandRecord
from installation import cluster_roles, wiring
from installation.wiring import BY_NAME, FunctionSpec
from tests.e2e.audit_record import WRITES_EVENTS, AuditRecord
from tests.e2e.cloud import kubelets
from tests.e2e.cloud.authenticator import Authenticator
from tests.e2e.cloud.kubelets import HollowKubelets, Kubelets, Shrink
from tests.e2e.cloud.server import Cloud, HostedCluster
from tests.e2e.functions.account import Functions
from tests.e2e.functions.audit import AuditTail
from tests.e2e.functions.package import package
from tests.e2e.functions.pump import Pace, Pump
from tests.e2e.functions.sandbox import OK
from tests.e2e.parts.admin import until
from tests.e2e.parts.control_plane import Together
from tests.e2e.parts.dynamodb_local import DynamoDBLocal
from tests.e2e.planned_pods import PlannedPods
from tests.e2e.volumes import VolumeProvisioner

OPENING: Final = ("refresh_catalogue", "reconcile")
"""The first runs of a new installation: planning needs a market and the status of NodePools."""

AUDIT_SECONDS: Final = 2.0
"""From an audit event to its delivery here; some seconds are usual, and AWS states none."""

PACE: Final = Pace(
    periods={"disrupt": timedelta(seconds=10), "reconcile": timedelta(seconds=20)},
    first=0.5,
    batches=5,
    retries=(timedelta(seconds=5), timedelta(seconds=10)),
    slack=3,
)
"""What is slow as deployed and is no latency that we report: a suite of three minutes sees it happen.

An event at a random time meets a schedule in the middle of its period on average, and so does the suite.
"""
WORKLOADS: Final = (
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "replicasets.apps",
    "jobs.batch",
    "poddisruptionbudgets.policy",
    "pods",
    "persistentvolumeclaims",
)
KUBELET_PACE: Final = kubelets.Pace(removal=timedelta(seconds=30))
"""The cloud controller looks for instances that are gone now and then; the functions delete Nodes themselves before."""

CLUSTER_WIDE: Final = ("nodepools.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws", "persistentvolumes")
OUR_EVENTS: Final = "reportingComponent=fleetwright"
RESET_SECONDS: Final = 300.0


class World(Together):
    """The parts that the suite runs on.

    Attributes:
        admin: The cluster's administrator.
        audit_record: What the audit log says.
        planned: What the functions planned.

    `dynamodb` is the address of a DynamoDB Local that is shared with others; without it the world has its own. `hollow` is
    the program of a hollow kubelet (`parts.builds`), for a world that is not played by kwok; `shrinks` says what each offers.
    With `starts_groups`, Kubernetes knows groups of pods itself.
    """

    def __init__(
        self,
        folder: Path,
        pace: Pace = PACE,
        kubelet_pace: kubelets.Pace = KUBELET_PACE,
        *,
        dynamodb: str = "",
        hollow: Path | None = None,
        shrinks: Shrink = lambda _: 100,
        starts_groups: bool = False,
    ) -> None:
        self._pace = pace
        self._kubelet_pace = kubelet_pace
        super().__init__(folder)
        self._dynamodb = dynamodb
        self._hollow = hollow
        self._shrinks = shrinks
        self._starts_groups = starts_groups
        self._environment: dict[str, str] = {}
        self._is_played_on = False
        self._reading = threading.Lock()

    def log_of(self, function: str) -> Path:
        """The log of a function, all its sandboxes together."""
        return self.processes.logs / f"{function}.log"

    def set_environment(self, **variables: str) -> None:
        """Give all functions these variables besides their own, from their next cold start on; none: no more."""
        if variables != self._environment:
            self._environment = variables
            self.functions.forget()

    def wake(self, name: str) -> Any:
        """Run a function as its schedule would, now."""
        return self.pump.wake(name)

    def read_audit_record(self) -> AuditRecord:
        """Return the audit log written so far."""
        with self._reading:
            self.audit_record.read()
            if WRITES_EVENTS not in self.audit_record.used and self.admin.list("events", fields=OUR_EVENTS):
                self.audit_record.used[WRITES_EVENTS] += 1
        return self.audit_record

    def commands(self) -> tuple[CommandRecord, ...]:
        """The disruption commands under way."""
        return self._commands.all()

    def clean(self) -> None:
        """Remove everything of the previous scene. The next scene calls it, so the last one needs none."""
        if self._is_played_on:
            self.reset()
        self._is_played_on = True

    def reset(self) -> None:
        """Leave nothing of a scenario: objects, nodes, instances, rows, messages."""
        self.pump.pause()
        try:
            self._clear()
        finally:
            self.pump.resume()
        self._is_played_on = False

    def _clear(self) -> None:
        self.set_environment()
        self._delete_objects()
        with self.cloud.clock.lock:
            alive = [instance.id for instance in self.cloud.instances.all() if instance.is_alive]
            self.cloud.instances.terminate(alive, "reset")
        for node in self.admin.list("nodes"):
            self._delete_node(node["metadata"]["name"])
        until(self._is_clear, seconds=RESET_SECONDS, what="no pods and nodes of the last scenario")
        self._wipe_table()
        sqs = self.cloud.client("sqs")
        for url in self.cloud.queue_urls.values():
            # SQS permits one purge a minute; remaining messages name claims that are gone, and `execute` drops them.
            with suppress(sqs.exceptions.PurgeQueueInProgress):
                sqs.purge_queue(QueueUrl=url)
        self.planned.forget()

    def start(self) -> None:
        """Start everything; returns when the functions have had their first runs. Raises PartError, RuntimeError."""
        self.cloud = Cloud(self._dynamodb or self.opened.enter_context(DynamoDBLocal(self.processes)).endpoint)
        self.opened.enter_context(self.cloud)
        self.authenticator = Authenticator(self.cloud.identities, self.cloud.settings.cluster_name)
        self.opened.enter_context(self.authenticator)
        webhook = self.authenticator.write_webhook_config(self.folder / "webhook.json")
        self.start_control_plane(
            authentication_webhook=webhook,
            has_hollow_kubelets=self._hollow is not None,
            starts_groups=self._starts_groups,
        )
        self.cloud.host_cluster(HostedCluster(endpoint=self.control_plane.url, ca=self.control_plane.ca))
        self.admin.apply([*crds.definitions(), *cluster_roles.manifests()])
        hollow = None
        if self._hollow is not None:
            kubeconfig = self.control_plane.kubelets_kubeconfig()
            hollow = HollowKubelets(self.processes, self._hollow, kubeconfig, self._shrinks)
            self.opened.callback(hollow.close)
        self.kubelets = self.opened.enter_context(Kubelets(self.cloud, self.admin, self._kubelet_pace, hollow))
        self._start_helpers()
        self._start_functions()

    def _start_helpers(self) -> None:
        volumes = VolumeProvisioner(self.admin)
        volumes.start()
        self.opened.callback(volumes.close)
        self.audit_record = AuditRecord(
            self.control_plane.audit_log, frozenset(map(cluster_roles.group_of, cluster_roles.RULES_OF))
        )
        table = DynamoTable(self.cloud.client("dynamodb"), self.cloud.settings.table_name)
        cluster = self.cloud.settings.cluster_name
        self._commands = DynamoCommands(table, cluster)
        self.planned = PlannedPods(DynamoClaims(table, cluster))
        self.planned.start()
        self.opened.callback(self.planned.close)

    def _start_functions(self) -> None:
        self.functions = Functions(package(), self._environment_of, self.processes, slack=self._pace.slack)
        self.opened.callback(self.functions.close)
        self.functions.listen(self.planned.record_invocation)
        clients = (self.cloud.client("sqs"), self.cloud.client("scheduler"))
        self.pump = Pump(self.functions, *clients, self.cloud.queue_urls, self._pace)
        self.opened.callback(self.pump.close)
        self.cloud.on_event(self.pump.put_event)
        self.cloud.http.after("sqs:SendMessageBatch", self.pump.sent)
        self.audit = AuditTail(
            self.control_plane.audit_log,
            f"/aws/eks/{self.cloud.settings.cluster_name}/cluster",
            self._tell_watcher,
            delay=AUDIT_SECONDS,
        )
        self.audit.start()
        self.opened.callback(self.audit.close)
        for name in OPENING:
            invocation = self.wake(name)
            if invocation.outcome != OK:
                raise RuntimeError(f"{name} did not get through its first run: {invocation.response}")
        self.pump.start()

    def _tell_watcher(self, delivery: JsonObject) -> None:
        for spec in wiring.FUNCTIONS:
            if spec.reads_audit_log:
                self.pump.send(spec, delivery, "auditLog")

    def _environment_of(self, spec: FunctionSpec) -> Mapping[str, str]:
        """As `infra` sets it: only the function that keeps the windows knows whom they wake."""
        environment = self.cloud.environment(spec) | {"POWERTOOLS_SERVICE_NAME": "fleetwright-e2e"}
        if spec is not BY_NAME["reconcile"]:
            environment.pop("DISRUPT_FUNCTION_ARN", None)
        return environment | self._environment

    def _delete_objects(self) -> None:
        for kind in CLUSTER_WIDE:
            self.admin.delete_all(kind)
        for kind in WORKLOADS:
            for namespace in sorted({found["metadata"]["namespace"] for found in self.admin.list(kind)}):
                self.admin.delete_all(kind, namespace, grace_seconds=0)

    def _delete_node(self, name: str) -> None:
        """Delete a Node for good: the functions, which take their finalizer off, are at rest."""
        with suppress(NotFoundError):
            self.admin.patch("nodes", name, {"metadata": {"finalizers": None}})
            self.admin.delete("nodes", name, grace_seconds=0)

    def _is_clear(self) -> bool:
        return not self.admin.list("pods") and not self.admin.list("nodes")

    def _wipe_table(self) -> None:
        client, table = self.cloud.client("dynamodb"), self.cloud.settings.table_name
        keys = (wiring.TABLE.partition_key, wiring.TABLE.sort_key)
        leases = partition_of(self.cloud.settings.cluster_name, "leases")
        for page in client.get_paginator("scan").paginate(TableName=table):
            for item in page["Items"]:
                # The leases' numbers make claims' names unique forever, and so the tokens of their launches.
                if item[keys[0]]["S"] != leases:
                    client.delete_item(TableName=table, Key={key: item[key] for key in keys})
