"""Launches that EC2 is asked about."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from core import labels
from core.catalogue.node_class import read_node_class
from core.launch.request import render_launch
from core.launch.validation import (
    MESSAGE_MAX,
    LaunchValidation,
    changed_fields,
    concerns_the_class,
    first_certain,
    launch_problems,
    next_validation,
    read_validation,
    template_fields,
    validation_orders,
    written_validation,
)
from core.model.catalogue import InstanceType, Offering
from core.model.node_pool import NodePool
from core.model.values.requirements import Requirement
from tests.builders import NOW, ZONES, a_class_manifest, a_pool, a_type
from tests.unit.launch.orders import CLUSTER, GPU_COUNT, a_node_class

# What is kept of EC2's answer about an EC2NodeClass, and when it is asked again.


FIELDS = {"UserData": "1"}
DENIED = ("ec2:RunInstances", "UnauthorizedOperation", "You are not authorized.")


def denied(times: int) -> LaunchValidation:
    answer = next_validation(None, FIELDS, DENIED, NOW)
    for _ in range(times - 1):
        answer = next_validation(answer, FIELDS, DENIED, NOW)
    return answer


def test_what_ec2_agreed_to_is_asked_about_only_after_a_change() -> None:
    agreed = next_validation(None, FIELDS, None, NOW)
    assert agreed.answers(FIELDS, NOW + timedelta(days=90))
    assert not agreed.answers({"UserData": "2"}, NOW)


@pytest.mark.parametrize(("times", "minutes"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 15), (200, 15)])
def test_a_denial_is_asked_about_again_later_and_later(times: int, minutes: int) -> None:
    """A permission may come without a change of the class; a question a minute for ever is too much."""
    answer, pause = denied(times), timedelta(minutes=minutes)
    assert answer.answers(FIELDS, NOW + pause - timedelta(seconds=1))
    assert not answer.answers(FIELDS, NOW + pause)


def test_a_changed_class_is_asked_about_at_once_and_is_counted_again() -> None:
    answer = next_validation(denied(5), {"UserData": "2"}, DENIED, NOW)
    assert not denied(5).answers({"UserData": "2"}, NOW)
    assert answer.denials == 1


def test_the_condition_has_ec2s_code_and_message_and_karpenters_reason() -> None:
    assert denied(1).reason() == "RunInstancesAuthCheckFailed"
    assert "UnauthorizedOperation: You are not authorized. Permit the action" in denied(1).explanation()
    wrong = next_validation(None, FIELDS, ("ec2:CreateFleet", "InvalidAMIID.NotFound", "no such image"), NOW)
    assert wrong.reason() == "InvalidAMIID_NotFound"
    agreed = next_validation(wrong, FIELDS, None, NOW)
    assert (agreed.agrees, agreed.reason(), agreed.explanation()) == (True, "", "")


@pytest.mark.parametrize(
    ("code", "concerns"),
    [
        ("DryRunOperation", False),
        ("InsufficientInstanceCapacity", False),
        ("VcpuLimitExceeded", False),
        ("InsufficientFreeAddressesInSubnet", False),
        ("UnauthorizedOperation", True),
        ("InvalidParameterValue", True),
        ("InvalidUserData.Malformed", True),
        ("NobodyKnowsThisCode", True),
    ],
)
def test_missing_capacity_does_not_make_a_class_unready(code: str, concerns: bool) -> None:
    """It comes back without a change of the class, and other instance types may have it."""
    assert concerns_the_class(code) is concerns


def test_an_answer_is_read_as_it_was_written() -> None:
    """The annotation is all that another run knows."""
    assert read_validation(written_validation(denied(3))) == denied(3)
    assert read_validation("") is None
    assert read_validation('{"fields": 3}') is None
    long = next_validation(None, FIELDS, ("ec2:CreateFleet", "X", "m" * 9000), NOW)
    assert len(long.message) == MESSAGE_MAX


@pytest.mark.parametrize(
    ("call", "named"),
    [
        ("ec2:RunInstances", "ec2:RunInstances (DryRun): "),
        ("ec2:CreateFleet", "ec2:CreateFleet (DryRun): "),
        ("ec2:CreateLaunchTemplate", "ec2:CreateLaunchTemplate: "),
    ],
)
def test_an_explanation_says_which_calls_only_asked(call: str, named: str) -> None:
    """A launch template is really made; the other two calls would be looked for in vain among the account's events."""
    answer = next_validation(None, FIELDS, (call, "UnauthorizedOperation", "no."), NOW)
    assert answer.explanation().startswith(f"{named}UnauthorizedOperation: no")


# Which fields of the rendered launch a change of an EC2NodeClass concerns.


def fields(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None) -> dict[str, str]:
    return template_fields(a_node_class(spec, status), CLUSTER)


@pytest.mark.parametrize(
    ("spec", "status", "changed"),
    [
        ({"userData": "#!/bin/sh\necho more"}, {}, ["UserData"]),
        ({"metadataOptions": {"httpPutResponseHopLimit": 2}}, {}, ["MetadataOptions.HttpPutResponseHopLimit"]),
        ({"detailedMonitoring": True}, {}, ["Monitoring.Enabled"]),
        ({"tags": {"team": "a"}}, {}, ["TagSpecifications"]),
        ({"context": "c"}, {}, ["Context"]),
        (
            {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi"}}]},
            {},
            ["BlockDeviceMappings"],
        ),
        ({}, {"instanceProfile": "other"}, ["IamInstanceProfile.Name"]),
        ({}, {"securityGroups": [{"id": "sg-2", "name": "nodes"}]}, ["NetworkInterfaces"]),
        ({}, {"subnets": [{"id": "subnet-b1", "zone": "us-east-1b"}]}, ["SubnetId"]),
        ({}, {"amis": [{"id": "ami-new"}]}, ["ImageId"]),
    ],
)
def test_a_change_is_named_by_the_field_of_the_template(
    spec: dict[str, Any], status: dict[str, Any], changed: list[str]
) -> None:
    """Otherwise, EC2 would not be asked about it, or people would look in the wrong place."""
    assert list(changed_fields(fields(), fields(spec, status))) == changed


def test_the_order_of_subnets_is_no_change() -> None:
    """They are listed by free addresses, which change by the minute."""
    there = [{"id": "subnet-a1", "zone": "us-east-1a"}, {"id": "subnet-b1", "zone": "us-east-1b"}]
    assert fields({}, {"subnets": there}) == fields({}, {"subnets": there[::-1]})


def test_a_field_that_comes_or_goes_is_a_change() -> None:
    assert changed_fields({"A": "1", "B": "2"}, {"B": "2", "C": "3"}) == ("A", "C")


def test_an_ipv6_cluster_is_another_launch() -> None:
    ipv6 = msgspec.structs.replace(CLUSTER, service_cidr="fd30::/108")
    assert "NetworkInterfaces" in changed_fields(fields(), template_fields(a_node_class(), ipv6))


def test_a_digest_is_what_earlier_releases_have_written() -> None:
    """Under another one, each release would ask EC2 about every class again."""
    content = [{"DeviceIndex": 0, "Groups": ["sg-1"]}]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert fields()["NetworkInterfaces"] == sha256(text.encode()).hexdigest()[:12]
    assert fields()["Monitoring.Enabled"] == sha256(b"false").hexdigest()[:12]


ARM = a_type("c7g.large", price=0.07, **{labels.ARCH: "arm64"})
DEAR, CHEAP = a_type("m5.large", price=0.1), a_type("c5.large", price=0.08)


def asked(*types: InstanceType, pools: Iterable[NodePool] = ()) -> list[tuple[str, str, str]]:
    """Image, instance type and capacity type of each launch."""
    node_class = a_node_class()
    orders = validation_orders(node_class, {}, types, pools)
    found = [render_launch(order, node_class, CLUSTER) for order in orders]
    return [(r.templates[0].data["ImageId"], r.offerings[0].instance_type, r.offerings[0].capacity_type) for r in found]


def test_each_image_is_asked_about_with_the_cheapest_type_that_boots_from_it() -> None:
    assert asked(DEAR, CHEAP, ARM) == [("ami-x86", "c5.large", "on-demand"), ("ami-arm", "c7g.large", "on-demand")]


def test_an_image_without_a_type_is_left_out() -> None:
    gpu = a_type("g5.large", price=1.0, **{GPU_COUNT: "1"})
    assert asked(gpu, CHEAP) == [("ami-gpu", "g5.large", "on-demand"), ("ami-x86", "c5.large", "on-demand")]


def test_on_demand_comes_before_spot() -> None:
    assert asked(a_type("c5.large", capacity_types=(labels.SPOT,)), DEAR) == [("ami-x86", "m5.large", "on-demand")]
    assert asked(a_type("c5.large", capacity_types=(labels.SPOT,))) == [("ami-x86", "c5.large", "spot")]


def test_types_that_no_pool_may_launch_are_not_asked_about() -> None:
    """A policy of the organization may forbid them, and the class would be refused although its nodes could be launched."""
    only_m5 = a_pool("m5", Requirement.one_of(labels.INSTANCE_TYPE, "m5.large"))
    only_arm = a_pool("arm", Requirement.one_of(labels.ARCH, "arm64"))
    assert asked(DEAR, CHEAP, ARM, pools=[only_m5]) == [("ami-x86", "m5.large", "on-demand")]
    assert asked(DEAR, CHEAP, ARM, pools=[only_m5, only_arm]) == [
        ("ami-x86", "m5.large", "on-demand"),
        ("ami-arm", "c7g.large", "on-demand"),
    ]


def test_pools_for_spot_alone_are_asked_about_with_spot() -> None:
    """A policy may forbid on-demand capacity, too."""
    spot = a_pool("spot", Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT))
    assert asked(DEAR, CHEAP, pools=[spot]) == [("ami-x86", "c5.large", "spot")]


def test_zones_of_the_pools_count() -> None:
    east = a_pool("b", Requirement.one_of(labels.ZONE, ZONES[1]))
    node_class = a_node_class()
    (order,) = validation_orders(node_class, {}, (CHEAP,), (east,))
    assert [offering.zone for offering in order.offerings] == [ZONES[1]]


def test_all_types_count_where_no_pool_admits_any() -> None:
    """The class is applied before its NodePools, or they wait for a type that the region does not sell."""
    nothing = a_pool("none", Requirement.one_of(labels.INSTANCE_TYPE, "z99.large"))
    assert asked(DEAR, CHEAP, pools=[nothing]) == [("ami-x86", "c5.large", "on-demand")]


def test_plain_types_stand_in_before_the_market_was_read() -> None:
    """The first class of an installation is there before the first reading."""
    assert asked() == [("ami-x86", "m5.large", "on-demand"), ("ami-arm", "m6g.large", "on-demand")]


def test_an_offering_that_is_sold_out_or_reserved_is_not_asked_about() -> None:
    """A reservation's places would be taken, and the answer about what is sold out says nothing of the class."""
    gone = tuple(
        msgspec.structs.replace(offering, available=offering.capacity_type == labels.SPOT)
        for offering in CHEAP.offerings
    )
    reserved = Offering("c5.large", ZONES[0], labels.RESERVED, 0, True, "cr-1", 1, "default")
    kind = msgspec.structs.replace(CHEAP, offerings=(*gone, reserved))
    assert asked(kind) == [("ami-x86", "c5.large", "spot")]
    none = msgspec.structs.replace(CHEAP, offerings=(reserved,))
    assert asked(none, DEAR) == [("ami-x86", "m5.large", "on-demand")]


def test_types_with_equal_offerings_stay_in_their_order() -> None:
    """The same type twice, of two NodePools: instance types have no order of their own."""
    twice = [a_pool(name, Requirement.one_of(labels.INSTANCE_TYPE, "c5.large")) for name in ("a", "b")]
    assert asked(CHEAP, pools=twice) == [("ami-x86", "c5.large", "on-demand")]


def test_before_the_market_was_read_one_zone_is_asked_about_at_no_price() -> None:
    orders = validation_orders(a_node_class(), {}, (), uses_reservations=False)
    assert [order.offerings for order in orders] == [
        (Offering("m5.large", "us-east-1a", labels.ON_DEMAND, 0),),
        (Offering("m6g.large", "us-east-1a", labels.ON_DEMAND, 0),),
    ]
    assert {order.uses_reservations for order in orders} == {False}
    assert {order.uses_reservations for order in validation_orders(a_node_class(), {}, ())} == {True}


# What EC2, a kubelet or our own rendering refuses is known before the first launch.


def problems_of(**spec: Any) -> list[tuple[str, bool]]:
    manifest = a_class_manifest()
    manifest["spec"] = {**manifest["spec"], **spec}
    return [(found.field, found.is_certain) for found in launch_problems(read_node_class(manifest))]


def a_volume(name: str = "/dev/xvda", **ebs: Any) -> dict[str, Any]:
    return {"deviceName": name, "ebs": {"volumeSize": "100Gi", **ebs}}


@pytest.mark.parametrize("field", ["role", "instanceProfile"])
def test_a_name_is_no_arn(field: str) -> None:
    """Plans promised nodes from such a class, which `validate` refused."""
    manifest = a_class_manifest()
    for name, meant in ((f"arn:aws:iam::111122223333:{field}/path/Nodes", ["Nodes"]), ("Nodes-arn:", [])):
        spec = {key: value for key, value in manifest["spec"].items() if key not in ("role", "instanceProfile")}
        found = launch_problems(read_node_class({**manifest, "spec": {**spec, field: name}}))
        assert [problem.suggestion for problem in found if problem.field == f"spec.{field}"] == meant


def test_an_ordinary_class_has_no_problem() -> None:
    """Nor has one with volumes, tags and reservations within EC2's bounds."""
    assert problems_of() == []
    gp3 = a_volume(volumeType="gp3", iops=4000, throughput=500, encrypted=True, kmsKeyID="alias/k")
    kubelet = {"systemReserved": {"cpu": "100m"}, "evictionHard": {"memory.available": "5%"}}
    assert problems_of(blockDeviceMappings=[gp3, a_volume("/dev/xvdb")], tags={"team": "web"}, kubelet=kubelet) == []


@pytest.mark.parametrize(
    ("family", "user_data"),
    [
        ("Bottlerocket", "settings: {kubernetes: {}}"),
        ("AL2023", "MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nx"),
        ("AL2023", "x" * 17_000),
        ("Custom", "x" * 16_385),
    ],
)
def test_user_data_that_cannot_be_rendered(family: str, user_data: str) -> None:
    """The text is not TOML, its archive has no boundary, or it is longer than EC2 takes."""
    assert problems_of(amiFamily=family, amiSelectorTerms=[{"id": "ami-1"}], userData=user_data) == [
        ("spec.userData", True)
    ]


@pytest.mark.parametrize(
    ("kubelet", "field"),
    [
        ({"systemReserved": {"cpu": "half"}}, "spec.kubelet.systemReserved.cpu"),
        ({"kubeReserved": {"memory": "1Gb"}}, "spec.kubelet.kubeReserved.memory"),
        ({"evictionHard": {"memory.available": "little"}}, "spec.kubelet.evictionHard.memory.available"),
        (
            {"evictionSoftGracePeriod": {"memory.available": "soon"}},
            "spec.kubelet.evictionSoftGracePeriod.memory.available",
        ),
        ({"containerLogMaxFiles": 1}, "spec.kubelet.containerLogMaxFiles"),
        ({"oomScoreAdj": 1001}, "spec.kubelet.oomScoreAdj"),
        ({"registryPullQPS": -1}, "spec.kubelet.registryPullQPS"),
        ({"topologyManagerPolicy": "numa"}, "spec.kubelet.topologyManagerPolicy"),
        ({"imageGCHighThresholdPercent": 70}, "spec.kubelet.imageGCHighThresholdPercent"),
        ({"imageGCLowThresholdPercent": 90}, "spec.kubelet.imageGCLowThresholdPercent"),
        ({"serializeImagePulls": True, "maxParallelImagePulls": 4}, "spec.kubelet.serializeImagePulls"),
        ({"systemCgroups": "/system"}, "spec.kubelet.systemCgroups"),
    ],
)
def test_a_kubelet_that_would_not_start(kubelet: dict[str, Any], field: str) -> None:
    """The node would never join."""
    assert (field, True) in problems_of(kubelet=kubelet)


@pytest.mark.parametrize(
    ("volume", "field", "certain"),
    [
        (a_volume(kmsKeyID="alias/k"), "ebs.kmsKeyID", True),
        (a_volume(kmsKeyID="alias/k", encrypted=False), "ebs.kmsKeyID", True),
        (a_volume(volumeType="gp3", iops=100), "ebs.iops", True),
        (a_volume(volumeType="gp3", volumeSize="1Ti", iops=99_000), "ebs.iops", False),
        (a_volume(volumeType="io1", iops=6_000), "ebs.iops", False),
        (a_volume(volumeType="gp3", throughput=900), "ebs.throughput", False),
        (a_volume(volumeType="gp3", throughput=10), "ebs.throughput", True),
        (a_volume(volumeType="st1", volumeSize="20Gi"), "ebs.volumeSize", True),
        (a_volume(volumeType="gp2", volumeSize="20Ti"), "ebs.volumeSize", False),
        (a_volume(volumeType="st1", volumeSize="200Gi") | {"rootVolume": True}, "ebs.volumeType", True),
    ],
)
def test_a_volume_that_ec2_refuses(volume: dict[str, Any], field: str, *, certain: bool) -> None:
    """A lower bound never falls; AWS raises upper ones now and then, so these are warnings."""
    assert problems_of(blockDeviceMappings=[volume]) == [(f"spec.blockDeviceMappings[0].{field}", certain)]


def test_a_device_is_mapped_once() -> None:
    """EC2: InvalidBlockDeviceMapping."""
    found = problems_of(blockDeviceMappings=[a_volume(), a_volume("/dev/xvdb"), a_volume()])
    assert found == [("spec.blockDeviceMappings[2].deviceName", True)]


@pytest.mark.parametrize(
    ("tags", "field"),
    [
        ({"aws:team": "web"}, "spec.tags.aws:team"),
        ({"AWS:team": "web"}, "spec.tags.AWS:team"),
        ({"k" * 129: "v"}, f"spec.tags.{'k' * 129}"),
        ({"k": "v" * 257}, "spec.tags.k"),
    ],
)
def test_tags_that_ec2_refuses(tags: dict[str, str], field: str) -> None:
    """EC2 User Guide, tag restrictions."""
    assert problems_of(tags=tags) == [(field, True)]


@pytest.mark.parametrize(
    ("kubelet", "field"),
    [({"clusterDNS": ["10.100.0.10", "dns"]}, "spec.kubelet.clusterDNS[1]"), ({"maxPods": 0}, "spec.kubelet.maxPods")],
)
def test_what_a_kubelet_takes_and_nobody_means_is_a_warning(kubelet: dict[str, Any], field: str) -> None:
    """It logs the address and goes on without it; a node without a place for pods starts, too."""
    manifest = a_class_manifest()
    manifest["spec"]["kubelet"] = kubelet
    found = launch_problems(read_node_class(manifest))
    assert [problem.field for problem in found] == [field]
    assert first_certain(found) is None
