"""From an instance to a Node, with a small API server in memory in place of the real one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from adapters.ports import ConflictError, DeniedError, JsonObject, PortError, TransientError
from core import labels
from core.ami_families.al2023 import AL2023
from simulator.aws.ec2.instances import RUNNING, Instance, Instances, Subnet
from simulator.aws.installation import Exchange, Pool, Region
from simulator.draws import stream
from simulator.record import Recorder
from tests.builders import a_type
from tests.e2e.cloud.kubelets import Kubelets, Pace
from tests.e2e.cloud.node_objects import UNINITIALIZED
from tests.e2e.cloud.wall_clock import WallClock
from tests.unit.simulator.aws.ec2.test_boot import rendered

SOON = 5.0
NAME = "ip-10-0-0-7.ec2.internal"
GPU = "nvidia.com/gpu"


class Api:
    """Objects by kind and name. With `away` set, every call raises this error."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], JsonObject] = {}
        self.away: PortError | None = None
        self.first_seen: list[JsonObject] = []
        self._number = 0

    def create(self, one: JsonObject) -> JsonObject:
        self._answer()
        key = ("nodes" if one["kind"] == "Node" else "csinodes", one["metadata"]["name"])
        if key in self.objects:
            raise ConflictError("create", "there already")
        self._number += 1
        made = {**one, "metadata": {**one["metadata"], "uid": f"uid-{self._number}", "resourceVersion": "1"}}
        self.objects[key] = made
        self.first_seen.append(made)
        return made

    def get(self, resource: str, name: str) -> JsonObject | None:
        self._answer()
        return self.objects.get((resource, name))

    def patch(self, resource: str, name: str, body: JsonObject, *, subresource: str = "") -> JsonObject:
        self._answer()
        merged = _merged(self.objects[resource, name], body)
        self.objects[resource, name] = merged
        return merged

    def delete(self, resource: str, name: str) -> None:
        self._answer()
        self.objects.pop((resource, name), None)

    def _answer(self) -> None:
        if self.away is not None:
            raise self.away


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {key: _merged(old.get(key), new.get(key, old.get(key))) for key in old | new}


@dataclass
class Account:
    """Instances of one type with a GPU."""

    clock: WallClock
    exchange: Exchange
    instances: Instances
    region: Region

    def launch(self, number: int = 1, *, data: str | None = None, address: int = 7) -> Instance:
        instance = Instance(
            id=f"i-{number}",
            pool=Pool("m5.large", "us-east-1a", "spot"),
            image_id="ami-1",
            subnet=Subnet("subnet-1", "us-east-1a", "10.0.0.0/19", 100),
            private_ip=f"10.0.0.{address}",
            launched_at=self.clock.now(),
            price=1,
            token="t",
            tags={},
            user_data=rendered(AL2023) if data is None else data,
            state=RUNNING,
        )
        with self.clock.lock:
            self.instances.launch(instance)
        return instance

    def end(self, instance: Instance) -> None:
        with self.clock.lock:
            self.instances.terminate([instance.id], "test")


@pytest.fixture
def account() -> Iterator[Account]:
    clock = WallClock()
    recorder = Recorder(clock)
    types = (a_type("m5.large", extra={GPU: "1"}),)
    region = Region(types=types, zone_ids={"us-east-1a": "use1-az6"})
    instances = Instances(clock, recorder, stream(0, "t"), lambda *_: None)
    clock.start()
    yield Account(clock, Exchange(recorder, types), instances, region)
    clock.stop()


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def kubelets(account: Account, api: Api) -> Iterator[Kubelets]:
    short = timedelta(milliseconds=20)
    with Kubelets(account, api, Pace(boot=short, cloud=short, devices=short, removal=short)) as running:
        yield running


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + SOON
    while not holds():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.005)


def node(api: Api) -> JsonObject:
    return api.objects.get(("nodes", NAME), {})


def is_complete(api: Api) -> bool:
    found = node(api)
    return bool(found) and labels.ZONE in found["metadata"]["labels"] and GPU in found["status"]["allocatable"]


def test_several_writers_complete_a_node_in_turn(account: Account, api: Api, kubelets: Kubelets) -> None:
    """Otherwise, the functions never see a Node without zone and GPUs, as every node is at first."""
    instance = account.launch()
    until(lambda: is_complete(api))
    at_first, at_last = api.first_seen[0], node(api)
    assert labels.ZONE not in at_first["metadata"]["labels"]
    assert UNINITIALIZED in at_first["spec"]["taints"]
    assert GPU not in at_first["status"]["capacity"]
    assert at_first["metadata"]["labels"]["team"] == "a"
    assert at_last["metadata"]["labels"][labels.INSTANCE_TYPE] == "m5.large"
    assert at_last["metadata"]["labels"]["failure-domain.beta.kubernetes.io/zone"] == "us-east-1a"
    assert at_last["spec"]["providerID"] == instance.provider_id
    assert sorted(taint["key"] for taint in at_last["spec"]["taints"]) == ["dedicated", "karpenter.sh/unregistered"]
    assert at_last["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}


def test_nodes_join_side_by_side(account: Account, api: Api, kubelets: Kubelets) -> None:
    """Otherwise, a busy control plane delays the last of two hundred nodes by minutes, as it would no machine."""
    all_there = threading.Barrier(3, timeout=SOON)
    create = api.create

    def create_together(one: JsonObject) -> JsonObject:
        if one["kind"] == "Node":
            all_there.wait()
        return create(one)

    api.create = create_together  # type: ignore[method-assign]  # an API server that answers three at once
    for number in range(3):
        account.launch(number, address=7 + number)
    until(lambda: len([kind for kind, _ in api.objects if kind == "nodes"]) == 3)
    assert not all_there.broken


def test_the_node_of_a_terminated_instance_is_removed(account: Account, api: Api, kubelets: Kubelets) -> None:
    """Otherwise, pods run on forever on machines that are gone."""
    instance = account.launch()
    until(lambda: is_complete(api))
    account.end(instance)
    until(lambda: not node(api))


def test_an_outage_of_the_api_server_is_waited_for(account: Account, api: Api, kubelets: Kubelets) -> None:
    """Otherwise, a scenario that stops the API server loses nodes that a real cluster gets."""
    api.away = TransientError("kube", "connection refused")
    account.launch()
    time.sleep(0.1)
    api.away = None
    until(lambda: is_complete(api))
    assert kubelets.failures == []


def test_a_reused_address_waits_for_the_old_node_to_go(account: Account, api: Api, kubelets: Kubelets) -> None:
    """Otherwise, a dead machine's Node represents a living one."""
    old = account.launch(1)
    until(lambda: is_complete(api))
    new = account.launch(2)
    account.end(old)
    until(lambda: node(api).get("spec", {}).get("providerID") == new.provider_id)


def test_a_final_refusal_of_the_api_server_is_reported(account: Account, api: Api, kubelets: Kubelets) -> None:
    """Otherwise, an invalid Node looks like one that boots slowly."""
    api.away = DeniedError("kube", "metadata.labels: Invalid value")
    account.launch()
    until(lambda: kubelets.failures)
    assert f"register {NAME}" in kubelets.failures[0]


def test_user_data_that_does_not_join_and_failed_boots_give_no_node(
    account: Account, api: Api, kubelets: Kubelets
) -> None:
    """Otherwise, liveness is never tested."""
    kubelets.boot.disturb(1, None)
    account.launch(1)
    account.launch(2, data="")
    time.sleep(0.2)
    assert api.objects == {}


def test_nothing_is_written_after_stop(account: Account, api: Api) -> None:
    """Otherwise, one test's nodes appear in the next one."""
    with Kubelets(account, api, Pace(boot=timedelta(0))):
        pass
    account.launch()
    time.sleep(0.1)
    assert api.objects == {}
