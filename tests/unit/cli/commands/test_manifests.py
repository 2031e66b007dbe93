"""`convert` writes older objects as v1, all or none; `crds` prints the definitions that users pipe into kubectl."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.__main__ import main
from core.api.crds import definitions
from tests.unit.api.objects import NODE_POOL

OLD_POOL = {
    "apiVersion": "karpenter.sh/v1beta1",
    "kind": "NodePool",
    "metadata": {"name": "old"},
    "spec": {"template": {"spec": {"nodeClassRef": {"name": "default"}, "requirements": []}}},
}
OLD_TEMPLATE = {
    "apiVersion": "karpenter.k8s.aws/v1alpha1",
    "kind": "AWSNodeTemplate",
    "metadata": {"name": "default"},
    "spec": {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}},
}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs"}, "data": {"on": "yes"}}


def write(path: Path, *objects: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def test_old_objects_become_v1_and_all_others_are_unchanged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "-f", write(tmp_path / "a.yaml", CONFIG_MAP, OLD_POOL, NODE_POOL)]) == 0
    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    assert (documents[0], documents[2]) == (CONFIG_MAP, NODE_POOL)
    assert documents[1]["apiVersion"] == "karpenter.sh/v1"
    assert documents[1]["spec"]["template"]["spec"]["expireAfter"] == "720h"


def test_the_output_is_valid_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "-f", write(tmp_path / "a.yaml", OLD_POOL, OLD_TEMPLATE)]) == 0
    (tmp_path / "b.yaml").write_text(capsys.readouterr().out)
    assert main(["validate", "-f", str(tmp_path / "b.yaml")]) == 0


def test_calendars_are_followed_from_another_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule = {"name": "weight", "validUntil": "2030-06-01", "settings": {"weight": 1}}
    calendar = {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Calendar",
        "metadata": {"name": "office"},
        "spec": {"rules": [rule]},
    }
    file = write(tmp_path / "a.yaml", NODE_POOL, calendar)
    codes = []
    for moment in ("2030-05-01T00:00:00Z", "2030-07-01T00:00:00Z"):
        main(["validate", "-f", file, "-o", "json", "--at", moment])
        codes.append([finding["code"] for finding in json.loads(capsys.readouterr().out)["problems"]])
    assert ["NeverHolds" in found for found in codes] == [False, True]


def test_manual_steps_are_listed_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "-f", write(tmp_path / "a.yaml", OLD_TEMPLATE)]) == 0
    assert capsys.readouterr().err.startswith("warning: EC2NodeClass default: it had no instance profile")


def test_one_object_that_cannot_be_converted_stops_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Partial output, applied, would leave pools without their classes."""
    own = {**OLD_TEMPLATE, "spec": {"launchTemplate": "mine"}}
    file = write(tmp_path / "a.yaml", OLD_POOL, own)
    assert main(["convert", "-f", file]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{file}: document 2: AWSNodeTemplate default: spec.launchTemplate" in err


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        ({"launchTemplate": "mine"}, "spec.provider.launchTemplate: custom launch templates were removed"),
        ({"subnetSelector": {"a": "b"}}, "spec.provider.securityGroupSelectorTerms: must have at least 1 entry"),
    ],
)
def test_a_provider_inside_a_provisioner_is_judged_with_it(
    provider: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Validate found no error; convert printed an EC2NodeClass that the API server refuses, or failed without a place."""
    old = {"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "old"}}
    file = write(tmp_path / "a.yaml", OLD_POOL, {**old, "spec": {"provider": provider}})
    for command in ("validate", "convert"):
        assert main([command, "-f", file]) == 1
        out, err = capsys.readouterr()
        assert f"document 2: Provisioner old: {said}" in (out if command == "validate" else err)
        assert command == "validate" or not out
    whole = {"subnetSelector": {"a": "b"}, "securityGroupSelector": {"a": "b"}}
    assert main(["convert", "-f", write(tmp_path / "b.yaml", {**old, "spec": {"provider": whole}})]) == 0


@pytest.mark.parametrize(
    ("identity", "said"),
    [
        ({"kind": 5}, "object theirs: kind: must be text"),
        ({"kind": None}, "object theirs: kind: is required"),
        ({"apiVersion": 1}, "ConfigMap theirs: apiVersion: must be text"),
        ({"apiVersion": None}, "ConfigMap theirs: apiVersion: is required"),
    ],
)
def test_an_object_without_kind_or_version_is_no_input(
    identity: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Validate named the field, plan said another thing or skipped the object, and convert printed it."""
    file = write(tmp_path / "a.yaml", CONFIG_MAP, {**CONFIG_MAP, **identity})
    for command, code in (("validate", 1), ("convert", 2), ("plan", 2), ("consolidate", 2)):
        assert main([command, "-f", file]) == code
        out, err = capsys.readouterr()
        assert f"document 2: {said}" in (out if command == "validate" else err)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("priority", 2**70, "does not fit into 64 bits"),
        ("terminationGracePeriodSeconds", 1e30, "must be a whole number"),
    ],
)
def test_a_number_that_no_field_holds_is_told_by_each_command(
    field: str, value: float, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Validate and plan refused the pod, the second with `must be a number, not a number`, and convert printed it."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {field: value, "containers": []}}
    file = tmp_path / "a.json"
    file.write_text(json.dumps(pod))
    for command in ("validate", "plan", "convert"):
        assert main([command, "-f", str(file)]) == 1
        assert f"spec.{field}: {said}" in " ".join("".join(capsys.readouterr()).split())


@pytest.mark.parametrize(
    ("obj", "field"),
    [
        ({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {}}, "metadata.name"),
        ({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": []}}, "metadata.name"),
        (
            {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodeClaim",
                "metadata": {"name": "a"},
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "a"},
                    "requirements": [],
                },
                "status": {"capacity": {"cpu": {}}},
            },
            "status.capacity.cpu",
        ),
    ],
)
def test_what_plan_sets_aside_is_an_error_of_validate(
    obj: dict[str, Any], field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path / "a.yaml", obj)
    assert main(["plan", "-f", file, "-o", "json"]) == 1
    (aside,) = json.loads(capsys.readouterr().out)["setAside"]
    assert f": document 1: {field}: " in aside["message"]
    assert main(["validate", "-f", file, "-o", "json"]) == 1
    assert field in {problem["field"] for problem in json.loads(capsys.readouterr().out)["problems"]}


def test_a_kind_that_karpenters_groups_do_not_have_is_no_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Validate called it an error, plan skipped it with a warning and planned without the NodePool, and convert printed it."""
    file = write(tmp_path / "a.yaml", CONFIG_MAP, {**NODE_POOL, "kind": "NodePol"})
    expected = "document 2: NodePol default: apiVersion: karpenter.sh/v1 has no kind NodePol (did you mean "
    for command, code in (("validate", 1), ("convert", 1), ("plan", 2), ("consolidate", 2), ("explain x", 2)):
        assert main([*command.split(), "-f", file]) == code
        out, err = capsys.readouterr()
        assert expected in (out if command == "validate" else err), command
    assert main(["plan", "-f", write(tmp_path / "b.yaml", {**CONFIG_MAP, "kind": "NodePol"})]) == 0


@pytest.mark.parametrize("given", [NODE_POOL, OLD_POOL], ids=["v1", "v1beta1"])
def test_an_object_that_is_not_valid_in_v1_stops_all(
    given: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was printed, and the API server refused it."""
    template = given["spec"]["template"]["spec"]
    wrong = {"key": "kubernetes.io/arch", "operator": "Is", "values": ["amd64"]}
    spec = {**given["spec"], "template": {"spec": {**template, "requirements": [wrong]}}}
    file = write(tmp_path / "a.yaml", OLD_TEMPLATE, {**given, "spec": spec})
    assert main(["convert", "-f", file]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert (
        f"{file}: document 2: NodePool {given['metadata']['name']}: spec.template.spec.requirements[0].operator" in err
    )


def test_unreadable_input_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "-f", str(tmp_path / "none.yaml")]) == 2
    assert capsys.readouterr().out == ""


def test_what_an_old_version_assumed_is_named_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fields that nobody wrote appeared in the output without a word."""
    assert main(["convert", "-f", write(tmp_path / "a.yaml", OLD_POOL, NODE_POOL)]) == 0
    said = capsys.readouterr().err
    assert said.startswith("note: NodePool old now says what its version assumed:\n")
    assert "  spec.template.spec.expireAfter: 720h\n" in said
    assert said.count("note:") == 1


# `crds`


def test_every_definition_is_one_document_without_anchors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds"]) == 0
    text = capsys.readouterr().out
    assert list(yaml.safe_load_all(text)) == list(definitions())
    assert "&id" not in text
