"""Writes to the API server for each EC2 instance what its kubelet, the cloud controller and the EBS driver would write."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Lock
from typing import Final, Protocol, Self

from adapters.ports import ConflictError, DeniedError, JsonObject, PortError
from core.model.values import quantity
from simulator.aws.ec2.boot import Boot
from simulator.aws.ec2.instances import Instance, Instances
from simulator.aws.installation import Exchange, Region
from tests.e2e.cloud import node_objects
from tests.e2e.cloud.wall_clock import WallClock
from tests.e2e.parts.processes import Part, Processes

# Real kubelets over a fake container runtime: they admit and refuse pods as on a machine, while kwok accepts all.


STOP_SECONDS: Final = 1.0
_AMOUNTS: Final = ("cpu", "memory", "ephemeral-storage")

Shrink = Callable[[str], int]
"""Percent of its allocatable that the kubelet of an instance offers."""


class HollowKubelets:
    """One process for each Node. The Node exists already; its kubelet adopts it, reports its resources, and marks it ready."""

    def __init__(self, processes: Processes, program: Path, kubeconfig: Path, shrink: Shrink = lambda _: 100) -> None:
        self._processes = processes
        self._program = program
        self._kubeconfig = kubeconfig
        self._shrink = shrink
        self._parts: dict[str, Part] = {}
        self._lock = Lock()

    def start(self, node: JsonObject) -> None:
        """Start the kubelet of this Node."""
        name, provider_id = node_objects.name_of(node), node["spec"]["providerID"]
        offered = node["status"]["allocatable"]
        share = self._shrink(provider_id)
        amounts = {key: quantity.parse(str(offered[key]), key) * share // 100 for key in _AMOUNTS if key in offered}
        written = {key: f"{amount}m" if key == "cpu" else str(amount) for key, amount in amounts.items()}
        command = [
            str(self._program),
            f"--name={name}",
            f"--provider-id={provider_id}",
            f"--kubeconfig={self._kubeconfig}",
            f"--max-pods={offered.get('pods', 58)}",
            f"--resources={','.join(f'{key}={amount}' for key, amount in sorted(written.items()))}",
        ]
        with self._lock:
            if provider_id not in self._parts:
                self._parts[provider_id] = self._processes.start(f"kubelet-{name}", command, environment=_ENVIRONMENT)

    def stop(self, provider_id: str) -> None:
        """Stop the kubelet of an instance that no longer exists."""
        with self._lock:
            part = self._parts.pop(provider_id, None)
        if part is not None:
            self._processes.stop(part, seconds=STOP_SECONDS)

    def close(self) -> None:
        """Stop all kubelets."""
        for provider_id in tuple(self._parts):
            self.stop(provider_id)


_ENVIRONMENT: Final = {"GOGC": "400", "GOMAXPROCS": "1", "HOME": "/tmp", "PATH": "/usr/bin:/bin"}  # noqa: S108 - kubelets make their folders there


POLL_SECONDS: Final = 0.5
"""How long a thread waits when nothing is due sooner."""

WRITERS: Final = 16
"""Threads that write. On machines, kubelets do not wait for each other: with one thread, the last of 225 nodes that had booted
within seconds of each other was labelled two minutes later."""

RETRY_SECONDS: Final = 1.0
ATTEMPTS_MAX: Final = 600
"""Enough for ten minutes without an API server; a real kubelet would retry forever."""


class Api(Protocol):
    """The calls to the API server that kubelets need (`tests.e2e.parts.admin.Admin`)."""

    def create(self, one: JsonObject) -> JsonObject:
        """Create an object. Raises PortError."""
        ...

    def get(self, resource: str, name: str) -> JsonObject | None:
        """Return an object, or None if it does not exist. Raises PortError."""
        ...

    def patch(self, resource: str, name: str, body: JsonObject, *, subresource: str = "") -> JsonObject:
        """JSON merge patch. Raises PortError."""
        ...

    def delete(self, resource: str, name: str) -> None:
        """Delete an object if it exists. Raises PortError."""
        ...


class Machines(Protocol):
    """The account's instances (`tests.e2e.cloud.server.Cloud`)."""

    clock: WallClock
    exchange: Exchange
    instances: Instances
    region: Region


@dataclass(frozen=True)
class Pace:
    """How long things take.

    Attributes:
        boot: From launch to the kubelet's registration.
        cloud: From registration to the labels of the cloud controller and the EBS driver.
        devices: From registration to the resources that device plugins bring, such as GPUs.
        removal: From the instance's end to the end of its Node.
    """

    boot: timedelta = timedelta(seconds=2)
    cloud: timedelta = timedelta(milliseconds=300)
    devices: timedelta = timedelta(seconds=1)
    removal: timedelta = timedelta(seconds=2)


class Kubelets:
    """All kubelets of the account's instances, with the cloud controller beside them.

    Attributes:
        boot: `boot.disturb(2, None)` lets the next two instances never join.
        failures: Writes that the API server refused permanently.
    """

    def __init__(
        self, cloud: Machines, api: Api, pace: Pace | None = None, hollow: HollowKubelets | None = None
    ) -> None:
        self._api = api
        self._hollow = hollow
        self._pace = pace or Pace()
        self.failures: list[str] = []
        self.boot = Boot(
            cloud.clock,
            cloud.exchange,
            lambda node, _claim, _becomes_ready: self._register(node),
            cloud.instances.fail_start,
            takes=lambda: self._pace.boot,
            region=cloud.region,
        )
        cloud.instances.on_launch(self.boot.launched)
        cloud.instances.on_end(self._ended)
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, _Task]] = []
        self._number = 0
        self._is_running = False
        self._threads = [
            threading.Thread(target=self._run, name=f"kubelets-{number}", daemon=True) for number in range(WRITERS)
        ]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the threads that write Nodes."""
        self._is_running = True
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop; nothing is written after this returns."""
        with self._changed:
            self._is_running = False
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def _register(self, node: JsonObject) -> None:
        by_kubelet = node_objects.by_kubelet(node) if self._hollow is None else node_objects.by_kubelet(node, {})
        self._plan(timedelta(0), f"register {node_objects.name_of(node)}", lambda: self._join(by_kubelet, node))

    def _join(self, by_kubelet: JsonObject, node: JsonObject) -> None:
        made, name = self._make(by_kubelet), node_objects.name_of(node)
        if self._hollow is not None:
            self._hollow.start({**made, "status": by_kubelet["status"]})
        self._plan(timedelta(0), f"CSINode of {name}", lambda: self._add_driver(made))
        self._plan(self._pace.cloud, f"initialize {name}", lambda: self._initialize(made, node_objects.by_cloud(node)))
        devices = node_objects.devices(node)
        if devices:
            self._plan(self._pace.devices, f"devices of {name}", lambda: self._add_devices(made, devices))

    def _make(self, node: JsonObject) -> JsonObject:
        try:
            return self._api.create(node)
        except ConflictError:
            found = self._api.get("nodes", node_objects.name_of(node))
            if found is not None and found["spec"].get("providerID") == node["spec"]["providerID"]:
                return found
            raise

    def _add_driver(self, made: JsonObject) -> None:
        if self._is_there(made):
            self._api.create(node_objects.csi_node(made))

    def _add_devices(self, made: JsonObject, devices: JsonObject) -> None:
        if self._is_there(made):
            self._api.patch("nodes", node_objects.name_of(made), {"status": devices}, subresource="status")

    def _is_there(self, made: JsonObject) -> bool:
        node = self._api.get("nodes", node_objects.name_of(made))
        return node is not None and node_objects.is_same(node, made)

    def _initialize(self, made: JsonObject, by_cloud: dict[str, str]) -> None:
        """Label the node with its location and admit pods, as the cloud controller does."""
        name = node_objects.name_of(made)
        node = self._api.get("nodes", name)
        if node is None or not node_objects.is_same(node, made):
            return
        taints = [t for t in node["spec"].get("taints") or () if t["key"] != node_objects.UNINITIALIZED["key"]]
        seen = {"resourceVersion": node["metadata"]["resourceVersion"]}
        self._api.patch("nodes", name, {"metadata": {**seen, "labels": by_cloud}, "spec": {"taints": taints or None}})

    def _ended(self, instance: Instance) -> None:
        name, provider_id = instance.node_name, instance.provider_id
        self._plan(self._pace.removal, f"remove {name}", lambda: self._remove(name, provider_id))

    def _remove(self, name: str, provider_id: str) -> None:
        """Delete the Node of an ended instance, as the cloud controller does."""
        if self._hollow is not None:
            self._hollow.stop(provider_id)
        node = self._api.get("nodes", name)
        if node is not None and node["spec"].get("providerID") == provider_id:
            self._api.delete("nodes", name)

    def _plan(self, delay: timedelta, what: str, act: Callable[[], None], attempt: int = 1) -> None:
        with self._changed:
            self._number += 1
            due = time.monotonic() + delay.total_seconds()
            heapq.heappush(self._due, (due, self._number, _Task(what, act, attempt)))
            self._changed.notify()

    def _run(self) -> None:
        while (task := self._next()) is not None:
            try:
                task.act()
            except DeniedError as error:
                self.failures.append(f"{task.what}: {error}")
            except PortError as error:
                self._try_again(task, error)

    def _next(self) -> _Task | None:
        """Wait for the next task and return it, or None after `stop`."""
        with self._changed:
            while self._is_running:
                wait = self._due[0][0] - time.monotonic() if self._due else POLL_SECONDS
                if wait <= 0:
                    return heapq.heappop(self._due)[2]
                self._changed.wait(min(wait, POLL_SECONDS))
        return None

    def _try_again(self, task: _Task, error: PortError) -> None:
        if task.attempt >= ATTEMPTS_MAX:
            self.failures.append(f"{task.what}: {task.attempt} attempts, last: {error}")
            return
        delay = 0.0 if isinstance(error, ConflictError) and task.attempt == 1 else RETRY_SECONDS
        self._plan(timedelta(seconds=delay), task.what, task.act, task.attempt + 1)


@dataclass(frozen=True)
class _Task:
    what: str
    act: Callable[[], None]
    attempt: int
