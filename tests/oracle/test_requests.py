"""Our requests to EC2 beside those of Karpenter's provider: the launch and the trial launch of each case, member by member.

Each difference is a row of docs/reference/launch-requests.md, with what it means. A difference without a row fails, and so does
a row without a difference.
"""

from __future__ import annotations

import base64
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from adapters.aws.ec2.fleet import UNPACED
from adapters.aws.ec2.instances import LaunchTemplates, LaunchValidator
from adapters.aws.node_class import rendering_problem
from adapters.aws.services import AwsService, ClusterDescription
from adapters.ports import DeniedError
from core import api, labels
from core.ami_families.family import Cluster
from core.catalogue.build import build_catalogue
from core.catalogue.node_class import read_node_class
from core.catalogue.reservations import with_reservations
from core.launch.request import render_launch
from core.launch.validation import DRY_RUN
from core.lifecycle.node_claim_objects import hand_made_plan
from core.lifecycle.records import ClaimRecord
from core.model.plan import PlannedClaim
from core.model.snapshot import FeatureGates, Options, Snapshot
from lambdas.controllers.launching import order_of, requested
from simulator.market.embedded import builtin_market, builtin_shapes
from tests.builders import NOW
from tests.oracle.request_cases import (
    ADDRESSES,
    AUTHORITY,
    CLUSTER,
    ENDPOINT,
    TYPES,
    Case,
    cases,
    node_claim,
    node_pool,
)
from tests.oracle.requests import Asked, Call, recorded
from tests.oracle.test_resolved import READERS

REGION: Final = "us-east-1"
PAGE: Final = Path(__file__).parents[2] / "docs/reference/launch-requests.md"

ONLY_THEIRS, ONLY_OURS, OTHER = "only Karpenter", "only here", "another value"

Members = dict[str, Any]
"""Path of a member → its value."""


# Ours.


OVERLAY: Final = {
    "apiVersion": "karpenter.sh/v1alpha1",
    "kind": "NodeOverlay",
    "metadata": {"name": "all"},
    "spec": {"requirements": [{"key": labels.OS, "operator": "Exists"}], "priceAdjustment": "+10%"},
}


class RecordedEc2(AwsService):
    """Takes every call down; a trial launch is answered as EC2 does."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        self.calls.append(Call(operation, arguments))
        if arguments.get("DryRun"):
            raise DeniedError(f"ec2:{operation}", "it would have succeeded", code=DRY_RUN)
        return {}


class _FixedClock:
    def now(self) -> datetime:
        return NOW


def snapshot(manifest: dict[str, Any], case: Case) -> Snapshot:
    shapes = tuple(shape for shape in builtin_shapes() if shape.instance_type in TYPES)
    market = build_catalogue(shapes, builtin_market(REGION), (manifest,))
    return Snapshot(
        now=NOW,
        cluster=CLUSTER,
        node_pools=(api.node_pool(node_pool(manifest["metadata"]["name"])),),
        node_classes=(api.node_class(manifest),),
        overlays=(api.node_overlay(OVERLAY),) if case.has_overlay else (),
        options=Options(feature_gates=FeatureGates(node_overlay=True)),
        catalogue=with_reservations(market, (manifest,), {}, NOW),
    )


def cluster(case: Case) -> Cluster:
    services, dns = ADDRESSES[case.addresses]
    return Cluster(name=CLUSTER, endpoint=ENDPOINT, certificate_authority=AUTHORITY, service_cidr=services, dns_ip=dns)


def ours(name: str) -> Asked:
    """What we ask EC2 for: a NodeClaim's launch as the functions carry it out, and the trial launch of its class."""
    case, manifest = cases()[name]
    node_class, seen = read_node_class(manifest), snapshot(manifest, case)
    description = ClusterDescription(cluster=cluster(case), version="1.37")
    refusal = rendering_problem(node_class, description, {}).reason
    planned = hand_made_plan(node_claim(name, case), seen, {})
    assert isinstance(planned, PlannedClaim), planned
    # The object is not made by hand: Karpenter's scheduler makes it, and ours plans the same.
    annotations = {key: value for key, value in planned.annotations.items() if key != labels.MADE_BY_HAND}
    planned = msgspec.structs.replace(planned, annotations=annotations)
    record = requested(planned, planned.name, "token", seen, NOW)
    assert isinstance(record, ClaimRecord), record
    order = order_of(record, manifest, seen.catalogue, cluster=CLUSTER)
    launch, validation = RecordedEc2(), RecordedEc2()
    rendered = render_launch(order, node_class, description.cluster)
    LaunchTemplates(launch, cluster=CLUSTER).ensure(rendered.templates)
    launch.call("CreateFleet", **rendered.request)
    if not refusal:
        templates = LaunchTemplates(validation, cluster=CLUSTER)
        validator = LaunchValidator(
            validation, templates, _FixedClock(), lambda _: seen.catalogue.types_for(name), turns=UNPACED
        )
        validator.validate(node_class, manifest, description.cluster, seen.node_pools)
    return Asked(launch=tuple(launch.calls), validation=tuple(validation.calls), refusal=refusal)


# Calls as members: path -> value.


KEYED: Final = {
    "BlockDeviceMappings": ("DeviceName",),
    "NetworkInterfaces": ("NetworkCardIndex", "DeviceIndex"),
    "TagSpecifications": ("ResourceType",),
}
"""List -> the members that tell its entries apart."""

CONFIGS: Final = "CreateFleet.LaunchTemplateConfigs[]"


def members_of(value: Any, path: str, family: str) -> Iterator[tuple[str, Any]]:
    """The members of a call, without those that are empty; entries of lists by what tells them apart."""
    name = path.rpartition(".")[2]
    if value in (None, "", []):
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from members_of(inner, f"{path}.{key}", family)
    elif isinstance(value, list) and name in KEYED:
        for entry in value:
            key = "/".join(str(entry.get(part, 0)) for part in KEYED[name])
            yield from members_of(entry, f"{path}[{key}]", family)
    elif name == "Tags":
        yield from ((f"{path}[{tag['Key']}]", tag.get("Value", "")) for tag in value)
    elif name == "UserData":
        yield path, READERS[family](value)
    else:
        yield path, value


def decoded(call: Call) -> Call:
    """Our call with its user data as text, as the recording has it."""
    request = msgspec.json.decode(msgspec.json.encode(call.request))
    data = request.get("LaunchTemplateData", {})
    if data.get("UserData"):
        data["UserData"] = base64.b64decode(data["UserData"]).decode()
    return Call(call.call, request)


def of_launch(calls: Iterable[Call], family: str) -> dict[str, Members]:
    """The fleet, and each place that it names with the template that is used there."""
    found: dict[str, Members] = {}
    templates = {
        call.request["LaunchTemplateName"]: call.request for call in calls if "LaunchTemplateData" in call.request
    }
    (fleet,) = (call.request for call in calls if call.call == "CreateFleet")
    found["fleet"] = dict(members_of({**fleet, "LaunchTemplateConfigs": None}, "CreateFleet", family))
    for config in fleet["LaunchTemplateConfigs"]:
        specification = config["LaunchTemplateSpecification"]
        template = templates[specification["LaunchTemplateName"]]
        for override in config["Overrides"]:
            found[f"{override['InstanceType']} in {override['AvailabilityZone']}"] = {
                **dict(members_of(template, "CreateLaunchTemplate", family)),
                **dict(members_of(specification, f"{CONFIGS}.LaunchTemplateSpecification", family)),
                **dict(members_of(override, f"{CONFIGS}.Overrides[]", family)),
            }
    return found


def of_validation(calls: Iterable[Call], family: str) -> dict[str, Members]:
    """The first trial launch: one of a class' images, on one type."""
    found: dict[str, Members] = {}
    for call in calls:
        if call.call in found:
            continue
        request = dict(call.request)
        configs = request.pop("LaunchTemplateConfigs", [{"Overrides": [{}]}])
        members = {**dict(members_of(request, call.call, family))}
        members |= dict(members_of(configs[0]["Overrides"][0], f"{CONFIGS}.Overrides[]", family))
        found[call.call] = members
    return found


# What differs, and what is decided of it.


def differences(theirs: dict[str, Members], own: dict[str, Members]) -> Iterator[tuple[str, str]]:
    """Member and kind of each difference."""
    for place in sorted(theirs.keys() | own.keys()):
        if place not in theirs or place not in own:
            yield "a place", ONLY_OURS if place in own else ONLY_THEIRS
            continue
        for member in sorted(theirs[place].keys() | own[place].keys()):
            a, b = theirs[place].get(member), own[place].get(member)
            if a != b:
                yield generic(member), ONLY_OURS if a is None else ONLY_THEIRS if b is None else OTHER


def generic(member: str) -> str:
    """The member without what tells entries of a list apart; tags are named."""
    path, tag, key = member.partition(".Tags[")
    return _IN_BRACKETS.sub("[]", path) + tag + key


_IN_BRACKETS: Final = re.compile(r"\[[^\]]*\]")
_ROW: Final = re.compile(
    r"^\| (launch|trial) \| `?(?P<member>[^|`]+)`? \| (?P<kind>[^|]+) \| (?P<cases>[^|]+) \|", re.MULTILINE
)


def decided(part: str) -> dict[tuple[str, str], str]:
    """Member and kind of each difference on the page -> the cases that have it, `all` or their names."""
    rows = _ROW.finditer(PAGE.read_text())
    return {(row["member"], row["kind"]): row["cases"] for row in rows if row[1] == part}


def is_of(member: str, row: str) -> bool:
    """Whether a row speaks of the member; `X.*` speaks of all members of X."""
    return member.startswith(row[:-1]) if row.endswith(".*") else member == row


def found_in(part: str) -> dict[tuple[str, str], list[str]]:
    """Member and kind -> the cases in which both sides differ there."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    read = {"launch": of_launch, "trial": of_validation}[part]
    for name in cases():
        own, theirs = ours(name), recorded()[name]
        mine, other = (own.launch, theirs.launch) if part == "launch" else (own.validation, theirs.validation)
        family = family_of(name)
        for member, kind in differences(read(other, family), read(tuple(map(decoded, mine)), family)):
            if name not in found[member, kind]:
                found[member, kind].append(name)
    return found


def family_of(name: str) -> str:
    """The reader of the case's user data."""
    return read_node_class(cases()[name][1]).family.name.lower()


@pytest.mark.ci
@pytest.mark.parametrize("part", ["launch", "trial"])
def test_every_difference_is_decided_on_the_page(part: str) -> None:
    rows, found = decided(part), found_in(part)
    undecided = {
        (member, kind): names
        for (member, kind), names in found.items()
        if not any(is_of(member, row) and kind == of_row for row, of_row in rows)
    }
    assert undecided == {}
    for (row, kind), said in rows.items():
        names = {name for (member, of), every in found.items() if of == kind and is_of(member, row) for name in every}
        assert names, f"{row} does not differ any more: its row is out of date"
        everywhere = set(cases()) - ({"kubelet-expression"} if part == "trial" else set())
        if said == "all":
            assert names == everywhere, (row, kind)
        elif said != "most":
            assert names == set(said.split(", ")), (row, kind)


def test_every_case_is_recorded_and_launches() -> None:
    assert recorded().keys() == cases().keys()
    assert {name for name, asked in recorded().items() if not asked.launch} == set()


def test_classes_that_are_not_ready_are_the_same() -> None:
    """A launch into a reservation fails against the fake of EC2, after it was asked for."""
    refused = {name: asked.refusal for name, asked in recorded().items() if "fleet error" not in asked.refusal}
    assert {name: ours(name).refusal for name in cases() if name in refused} == refused


def test_a_difference_is_found_where_a_member_is_lost_changed_or_added() -> None:
    (name, *_) = cases()
    calls = [decoded(call) for call in ours(name).launch]
    same = of_launch(calls, family_of(name))
    (place,) = [key for key in same if key != "fleet"][:1]
    lost = {member: value for member, value in same[place].items() if not member.endswith("ImageId")}
    changed = {**same["fleet"], "CreateFleet.Type": "request"}
    assert list(differences(same, same)) == []
    assert list(differences(same, {**same, place: lost})) == [
        (f"{CONFIGS}.Overrides[].ImageId", ONLY_THEIRS),
        ("CreateLaunchTemplate.LaunchTemplateData.ImageId", ONLY_THEIRS),
    ]
    assert list(differences({**same, "fleet": changed}, same)) == [("CreateFleet.Type", OTHER)]
    assert next(iter(differences({"fleet": same["fleet"]}, same))) == ("a place", ONLY_OURS)
