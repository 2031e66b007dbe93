"""Values of an EC2NodeClass that its schema admits and AWS does not."""

from __future__ import annotations

from typing import Any

import pytest

from cli.manifests.document import Document
from cli.validation.class_values import refused_values
from tests.unit.api.objects import NODE_CLASS, changed


def found_in(obj: dict[str, Any]) -> list[tuple[str, str, str]]:
    findings = refused_values(Document("a.yaml", 0, obj))
    return [(found.severity.value, found.field.removeprefix("spec."), found.text) for found in findings]


@pytest.mark.parametrize("field", ["role", "instanceProfile"])
def test_a_name_is_no_arn(field: str) -> None:
    arn = f"arn:aws:iam::111122223333:{field}/path/Nodes"
    text = "is an ARN, and IAM's calls take the name alone (did you mean 'Nodes'?)"
    assert found_in(changed(NODE_CLASS, f"spec.{field}", arn)) == [("error", field, text)]
    assert found_in(changed(NODE_CLASS, f"spec.{field}", "Nodes-arn:")) == []
    assert found_in(changed(NODE_CLASS, f"spec.{field}", 7)) == []


@pytest.mark.parametrize(
    ("field", "selected"),
    [
        ("subnetSelectorTerms", "subnet"),
        ("securityGroupSelectorTerms", "security group"),
        ("amiSelectorTerms", "image"),
        ("capacityReservationSelectorTerms", "capacity reservation"),
    ],
)
def test_a_term_without_a_tag_selects_everything(field: str, selected: str) -> None:
    terms: list[Any] = [{"tags": {"a": "b"}}, {"tags": {}}, {"id": "x", "tags": {}}, {}]
    text = f"is empty, so the term selects every {selected} of the account; name a tag"
    assert found_in(changed(NODE_CLASS, f"spec.{field}", terms)) == [("error", f"{field}[1].tags", text)]


def refused(field: str, kind: str, kinds: str) -> tuple[str, str, str]:
    text = f"EC2 refuses it for volumes of type {kind}; {kinds} take it"
    return ("warning", f"blockDeviceMappings[1].ebs.{field}", text)


@pytest.mark.parametrize(
    ("ebs", "found"),
    [
        ({"volumeType": "gp3", "iops": 3000, "throughput": 125}, []),
        ({"volumeType": "gp2", "iops": 3000}, [refused("iops", "gp2", "gp3 and io1 and io2")]),
        ({"volumeType": "io1", "iops": 3000, "throughput": 125}, [refused("throughput", "io1", "gp3")]),
        ({"iops": 3000, "throughput": 125}, []),
        ({"volumeType": "gp2"}, []),
        *(
            (
                {"volumeType": kind},
                [
                    (
                        "warning",
                        "blockDeviceMappings[1].ebs.iops",
                        f"is missing: EC2 refuses volumes of type {kind} without it",
                    )
                ],
            )
            for kind in ("io1", "io2")
        ),
    ],
)
def test_a_volume_has_what_its_type_takes(ebs: dict[str, Any], found: list[tuple[str, str, str]]) -> None:
    devices = [{"deviceName": "/dev/xvda"}, {"deviceName": "/dev/xvdb", "ebs": ebs}]
    assert found_in(changed(NODE_CLASS, "spec.blockDeviceMappings", devices)) == found


def test_a_volume_has_a_device_name() -> None:
    text = "is missing: EC2 refuses a launch with a volume that has no device name"
    for device in ({}, {"deviceName": ""}):
        found = found_in(changed(NODE_CLASS, "spec.blockDeviceMappings", [device]))
        assert found == [("warning", "blockDeviceMappings[0].deviceName", text)]


@pytest.mark.parametrize(
    "other", [{"kind": "NodePool"}, {"apiVersion": "example.com/v1"}, {"apiVersion": "karpenter.k8s.aws/v1beta1"}]
)
def test_other_objects_are_left_alone(other: dict[str, str]) -> None:
    assert found_in({**changed(NODE_CLASS, "spec.role", "arn:aws:iam::1:role/a"), **other}) == []
