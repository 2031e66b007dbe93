"""From user data to a Node: what each AMI family's bootstrap hands to the kubelet."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest

from core import labels
from core.ami_families.al2023 import AL2023
from core.ami_families.bootstrap_scripts import AL2
from core.ami_families.bottlerocket import BOTTLEROCKET
from core.ami_families.family import AmiFamily, Bootstrap, Cluster
from core.model.values import quantity
from core.model.values.taints import Taint
from simulator.aws.ec2.boot import ENDS_AFTER, Boot, KubeletConfig, node_size, read_user_data
from simulator.aws.ec2.instances import RUNNING, Instance, Subnet
from simulator.aws.installation import Exchange, Pool, Region
from simulator.clock import VirtualClock
from simulator.market.node_facts import stated_facts
from simulator.record import Recorder
from tests.builders import a_type

START = datetime(2026, 11, 20, tzinfo=UTC)
CLUSTER = Cluster(name="c", endpoint="https://c", certificate_authority="Q0E=", service_cidr="172.20.0.0/16")
TAINTS = (Taint("dedicated", "NoSchedule", "gpu"), Taint("karpenter.sh/unregistered", "NoExecute"))


def rendered(family: AmiFamily, user_data: str = "") -> str:
    """User data as the launch renders it, base64."""
    bootstrap = Bootstrap(
        cluster=CLUSTER,
        labels={"team": "a", "karpenter.sh/nodepool": "default"},
        taints=TAINTS,
        kubelet={"systemReserved": {"cpu": "50m"}, "evictionHard": {"memory.available": "5%"}},
        max_pods=42,
        user_data=user_data,
    )
    return base64.b64encode(family.user_data(bootstrap).encode()).decode()


@pytest.mark.parametrize("family", [AL2, AL2023, BOTTLEROCKET], ids=lambda family: family.name)
def test_what_is_rendered_is_what_the_kubelet_reads(family: AmiFamily) -> None:
    """If this failed, nodes would join without the labels and taints that pods were planned by."""
    config = read_user_data(rendered(family))
    assert config is not None
    assert config.labels == {"team": "a", "karpenter.sh/nodepool": "default"}
    assert sorted(taint["key"] for taint in config.taints) == ["dedicated", "karpenter.sh/unregistered"]
    assert {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"} in config.taints
    assert (config.max_pods, config.system_reserved) == (42, {"cpu": "50m"})
    assert config.eviction_hard == {"memory.available": "5%"}


def test_user_data_of_the_users_own_stands_beside_ours() -> None:
    """If this failed, a class with its own script would give nodes that never join."""
    config = read_user_data(rendered(AL2023, "#!/bin/sh\necho hello\n"))
    assert config is not None
    assert config.labels["team"] == "a"


@pytest.mark.parametrize("text", ["", "#!/bin/sh\necho hello\n", "settings = [", "MIME-Version: 1.0\n\nnothing"])
def test_user_data_that_joins_no_cluster_joins_none(text: str) -> None:
    """If this failed, broken user data would go unnoticed until a real launch."""
    assert read_user_data(base64.b64encode(text.encode()).decode()) is None


@pytest.mark.parametrize(
    ("key", "starts"),
    [
        ("team", True),
        ("karpenter.k8s.aws/instance-family", True),
        ("node.kubernetes.io/lifecycle", True),
        ("topology.kubernetes.io/zone", True),
        ("node-role.kubernetes.io/worker", False),
        ("kubernetes.io/role", False),
        ("topology.ebs.k8s.io/zone", False),
    ],
)
def test_a_kubelet_refuses_labels_that_are_not_its_to_set(key: str, starts: bool) -> None:
    """If this failed, a label that no kubelet starts with would give nodes here and none on EC2."""
    assert KubeletConfig(labels={key: "x"}).starts is starts


def test_a_node_keeps_back_what_its_kubelet_is_told_to() -> None:
    """If this failed, pods would be bound where a real node has no room."""
    instance_type = a_type(cpu="4", memory="16Gi", pods="58")
    config = KubeletConfig(
        max_pods=20,
        kube_reserved={"cpu": "100m"},
        system_reserved={"cpu": "100m", "memory": "1Gi"},
        eviction_hard={"memory.available": "10%"},
    )
    capacity, allocatable = node_size(stated_facts(instance_type), config)
    assert (capacity["pods"], allocatable["pods"]) == (20, 20)
    assert allocatable["cpu"] == 3800
    assert allocatable["memory"] == 16 * 2**30 - 2**30 - -(-16 * 2**30 // 10)


def test_without_settings_a_node_is_as_the_catalogue_says() -> None:
    """If this failed, every plan would be wrong by the difference."""
    instance_type = a_type(cpu="4", memory="16Gi")
    capacity, allocatable = node_size(stated_facts(instance_type), KubeletConfig())
    assert capacity == instance_type.capacity
    assert allocatable == instance_type.allocatable()


class Bench:
    """Boots instances of one type and keeps the nodes that joined."""

    def __init__(self) -> None:
        self.clock = VirtualClock(START)
        self.joined: list[tuple[datetime, dict, str]] = []
        self.ended: list[tuple[datetime, str, str]] = []
        region = Region(types=(a_type("m5.large"),), zone_ids={"us-east-1a": "use1-az6"})
        self.boot = Boot(
            self.clock,
            Exchange(Recorder(self.clock), region.types),
            lambda node, claim, _: self.joined.append((self.clock.now(), node, claim)),
            lambda instance, reason: self.ended.append((self.clock.now(), instance.id, reason)),
            takes=lambda: timedelta(seconds=45),
            region=region,
        )

    def launch(self, number: int = 1, data: str = "") -> Instance:
        """One instance that begins to boot."""
        instance = Instance(
            id=f"i-{number}",
            pool=Pool("m5.large", "us-east-1a", "spot"),
            image_id="ami-1",
            subnet=Subnet("subnet-1", "us-east-1a", "10.0.0.0/19", 100),
            private_ip=f"10.0.0.{number}",
            launched_at=self.clock.now(),
            price=1,
            token="t",
            tags={labels.NODECLAIM: f"default-{number}"},
            user_data=data or rendered(AL2023),
            state=RUNNING,
        )
        self.boot.launched(instance)
        return instance


def test_an_instance_that_cannot_start_ends_seconds_after_its_launch() -> None:
    bench = Bench()
    bench.boot.fail(1, "Client.InternalError")
    bench.launch(1)
    bench.launch(2)
    bench.clock.run_until(START + timedelta(minutes=5))
    assert bench.ended == [(START + ENDS_AFTER, "i-1", "Client.InternalError")]
    assert [claim for _, _, claim in bench.joined] == ["default-2"]


def test_a_node_joins_as_ec2_and_its_kubelet_bring_it() -> None:
    """If this failed, nodes here would lack what real ones carry, or have more."""
    bench = Bench()
    bench.launch()
    bench.clock.run_until(START + timedelta(minutes=5))
    [(moment, node, claim)] = bench.joined
    assert (moment, claim) == (START + timedelta(seconds=45), "default-1")
    node_labels = node["metadata"]["labels"]
    assert node["metadata"]["name"] == node_labels[labels.HOSTNAME] == "ip-10-0-0-1.ec2.internal"
    assert node["spec"]["providerID"] == "aws:///us-east-1a/i-1"
    assert node_labels[labels.ZONE] == node_labels[labels.EBS_ZONE] == "us-east-1a"
    assert (node_labels[labels.INSTANCE_TYPE], node_labels[labels.ARCH]) == ("m5.large", "amd64")
    assert quantity.parse_resources(node["status"]["capacity"])["pods"] == 42


def test_a_hitch_befalls_the_next_boots_until_another_replaces_it() -> None:
    """If this failed, a `boot` step would break other nodes than the next ones, or never stop."""
    bench = Bench()
    bench.boot.disturb(5, None)
    bench.launch(1)
    bench.boot.disturb(1, timedelta(seconds=300))
    for number in (2, 3):
        bench.launch(number)
    bench.clock.run_until(START + timedelta(minutes=10))
    assert [(claim, moment) for moment, _, claim in bench.joined] == [
        ("default-3", START + timedelta(seconds=45)),
        ("default-2", START + timedelta(seconds=300)),
    ]


def test_an_instance_that_ended_before_it_booted_never_joins() -> None:
    """If this failed, dead machines would take pods."""
    bench = Bench()
    bench.launch().state = "terminated"
    bench.launch(2, base64.b64encode(b"nothing").decode())
    bench.clock.run_until(START + timedelta(minutes=10))
    assert bench.joined == []
