"""Nothing that decisions do not read is written anywhere: annotations, environment, arguments, user data."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import command_parser, main
from cli.commands.cluster import Console
from core.api import node_class
from core.ledger.encoding import written_form
from core.manifests.assemble import assemble
from core.manifests.wire import decoding, resources
from core.model.catalogue import Catalogue
from core.model.snapshot import Options

CANARY = "hunter2-canary"
LAST = "kubectl.kubernetes.io/last-applied-configuration"
TERMS = [{"tags": {"a": "b"}}]


def secret(where: str) -> str:
    return f"{CANARY}-{where}"


def annotated(obj: dict[str, Any]) -> dict[str, Any]:
    """The object as `kubectl apply` leaves it, with annotations and managedFields that repeat it."""
    kind = obj["kind"]
    annotations = {LAST: secret(f"{kind}-applied"), "example.com/token": secret(f"{kind}-annotation")}
    fields = [{"manager": "kubectl", "fieldsV1": {secret(f"{kind}-field"): {}}}]
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations, "managedFields": fields}}


def pod_spec(kind: str) -> dict[str, Any]:
    hook = {"exec": {"command": [secret(f"{kind}-hook")]}}
    container = {
        "name": "c",
        "image": secret(f"{kind}-image"),
        "env": [{"name": "P", "value": secret(f"{kind}-env")}],
        "args": [secret(f"{kind}-args")],
        "command": [secret(f"{kind}-command")],
        "lifecycle": {"preStop": hook},
        "livenessProbe": hook,
        "resources": {"requests": {"cpu": "1"}},
    }
    return {"containers": [container], "initContainers": [{**container, "name": "i"}]}


def everything() -> list[dict[str, Any]]:
    template = {"metadata": {"labels": {"app": "web"}, "annotations": {"t": secret("template")}}}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    class_spec = {
        "userData": f"#!/bin/sh\nexport P={secret('user-data')}",
        "role": "Nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": TERMS,
        "securityGroupSelectorTerms": TERMS,
    }
    workload = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {**template, "spec": pod_spec("Deployment")},
    }
    named: dict[str, Any] = {"name": "default"}
    spaced = {"name": "web", "namespace": "shop"}
    found = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": named, "spec": class_spec},
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodePool",
            "metadata": named,
            "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}},
        },
        {"apiVersion": "v1", "kind": "Pod", "metadata": {**spaced, "name": "p"}, "spec": pod_spec("Pod")},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": spaced, "spec": workload},
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": spaced,
            "spec": {**workload, "template": {**template, "spec": pod_spec("DaemonSet")}},
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": spaced,
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        },
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}},
        {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"name": "claim", "labels": {"karpenter.sh/nodepool": "default"}},
            "spec": {"nodeClassRef": reference, "requirements": []},
        },
    ]
    return [annotated(obj) for obj in found]


def canaries(text: str) -> set[str]:
    return {part.split('"')[0].split("\\")[0] for part in text.split(CANARY)[1:]}


@pytest.mark.parametrize("options", [[], ["--anonymize"]])
def test_a_snapshot_has_none_of_them(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": everything()}))
    assert main(["snapshot", "-f", str(path), *options]) == 0
    out = capsys.readouterr().out
    assert json.loads(out)["items"]
    assert canaries(out) == set()


def test_the_ledger_has_none_of_them() -> None:
    objects: dict[Any, list[Any]] = {}
    for obj in everything():
        resource = resources.BY_KIND[obj["kind"]]
        objects.setdefault(resource, []).append(decoding.from_object(resource, obj))
    now = datetime(2026, 11, 23, tzinfo=UTC)
    snapshot, problems = assemble(objects, now=now, catalogue=Catalogue(), options=Options())
    assert (len(snapshot.node_pools), len(snapshot.node_classes), len(snapshot.node_claims)) == (1, 1, 1)
    assert not [problem for problem in problems if not problem.is_warning]
    assert canaries(written_form(snapshot).decode("utf-8", "replace")) == set()


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/data/cluster",
        "/data/savings",
        "/data/week",
        "/data/what-if?price=0.05",
        *(f"/data/why?of={name}" for name in ("shop/p", "shop/web", "node/n", "nodeclaim/claim", "nodepool/default")),
    ],
)
def test_the_consoles_pages_have_none_of_them(path: str, tmp_path: Path) -> None:
    objects = tmp_path / "objects.json"
    objects.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": everything()}))
    console = Console(command_parser("console").parse_args(["-f", str(objects), "--time-budget", "0"]))
    reply = console.reply(path)
    assert (reply.status, canaries(reply.text)) == (200, set())
    assert path == "/" or '"code": 2' not in reply.text


def test_nodes_of_a_class_without_its_user_data_have_not_drifted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = "karpenter.k8s.aws/ec2nodeclass-hash"
    found = everything()
    own, claim = (next(obj for obj in found if obj["kind"] == kind) for kind in ("EC2NodeClass", "NodeClaim"))
    claim["metadata"]["annotations"] = {key: node_class(own).spec_hash}
    old = {**claim, "metadata": {**claim["metadata"], "name": "old", "annotations": {key: "1"}}}
    path = tmp_path / "objects.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [own, claim, old]}))
    assert main(["snapshot", "-f", str(path)]) == 0
    items = {item["metadata"]["name"]: item for item in json.loads(capsys.readouterr().out)["items"]}
    assert items["claim"]["metadata"]["annotations"][key] == node_class(items["default"]).spec_hash
    assert items["old"]["metadata"]["annotations"][key] == "1"
