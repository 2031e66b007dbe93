"""A snapshot gives the same answers as the cluster, with or without its names, and holds nothing else."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from cli.__main__ import main
from cli.cluster.pseudonyms import Pseudonyms
from tests.builders import a_class_manifest

NOW = "2026-11-20T12:00:00Z"
SECRET = "hunter2"
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
TYPES = (("m5.large", 2, 8), ("m5.xlarge", 4, 16), ("c5.2xlarge", 8, 16))


def a_catalogue() -> dict[str, Any]:
    return {
        "instanceTypes": [
            {
                "name": name,
                "requirements": {"kubernetes.io/arch": ["amd64"], "kubernetes.io/os": ["linux"]},
                "capacity": {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": "29"},
                "offerings": [
                    {"zone": zone, "capacityType": kind, "price": round(0.048 * cpu * share + 0.001 * n, 4)}
                    for n, zone in enumerate(ZONES)
                    for kind, share in (("on-demand", 1.0), ("spot", 0.4))
                ],
            }
            for name, cpu, memory in TYPES
        ]
    }


def an_object(kind: str, name: str, spec: dict[str, Any], namespace: str = "", **metadata: Any) -> dict[str, Any]:
    groups = {"Deployment": "apps/v1", "NodePool": "karpenter.sh/v1", "NodeClaim": "karpenter.sh/v1"}
    groups |= {"PodDisruptionBudget": "policy/v1"}
    own = {"name": name, **({"namespace": namespace} if namespace else {}), **metadata}
    return {"apiVersion": groups.get(kind, "v1"), "kind": kind, "metadata": own, "spec": spec}


def a_pod_spec(rng: Random, app: str, teams: list[str]) -> dict[str, Any]:
    """Requests, and sometimes a rule of each kind."""
    selector = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "topology.kubernetes.io/zone"}
    on_host = {**selector, "topologyKey": "kubernetes.io/hostname"}
    resources = {"requests": {"cpu": f"{rng.choice((250, 500, 900, 1500))}m", "memory": f"{rng.choice((512, 1024))}Mi"}}
    environment = [{"name": "TOKEN", "value": SECRET}]
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": SECRET, "env": environment, "resources": resources}]
    }
    if rng.random() < 0.3:
        spec["topologySpreadConstraints"] = [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **selector}]
    if rng.random() < 0.3:
        term = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [on_host]}}
        spec["affinity"] = term
    if rng.random() < 0.4:
        spec["nodeSelector"] = {"acme.example/team": rng.choice(teams)}
    if rng.random() < 0.5:
        spec["tolerations"] = [{"key": "acme.example/dedicated", "operator": "Equal", "value": rng.choice(teams)}]
    return spec


def a_cluster(seed: int) -> list[dict[str, Any]]:
    """NodePools with labels and taints, nodes with pods, and pending workloads."""
    rng = Random(seed)  # noqa: S311 - repeatable, not secret
    teams = rng.sample(["checkout", "billing", "ads", "core-9", "z-team"], 2)
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    pools, objects = rng.sample(["general", "aa-gpu", "zz-batch", "web"], 2), [a_class_manifest()]
    for pool, team in zip(pools, teams, strict=True):
        spec: dict[str, Any] = {"nodeClassRef": reference, "requirements": []}
        spec["requirements"] = [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"]}
        ]
        if rng.random() < 0.4:
            spec["taints"] = [{"key": "acme.example/dedicated", "value": team, "effect": "NoSchedule"}]
        template = {"metadata": {"labels": {"acme.example/team": team}, "annotations": {"note": SECRET}}, "spec": spec}
        disruption = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
        objects.append(an_object("NodePool", pool, {"template": template, "disruption": disruption}))
    for number in range(rng.randint(2, 4)):
        objects += a_running_node(rng, number, pools[number % 2], teams[number % 2])
    for number in range(rng.randint(2, 4)):
        app = rng.choice(["cart", "web", "api", "0-first"]) + str(number)
        namespace = rng.choice(["shop", "shop-a", "", "aaa"])
        labels = {"app": app}
        template = {
            "metadata": {"labels": labels, "annotations": {"vault": SECRET}},
            "spec": a_pod_spec(rng, app, teams),
        }
        spec = {"replicas": rng.randint(1, 7), "selector": {"matchLabels": labels}, "template": template}
        objects.append(an_object("Deployment", app, spec, namespace))
    objects.append(
        an_object("PodDisruptionBudget", "b", {"minAvailable": 1, "selector": {"matchLabels": {"app": "old"}}}, "shop")
    )
    return objects


def a_running_node(rng: Random, number: int, pool: str, team: str) -> list[dict[str, Any]]:
    (name, cpu, memory), zone = rng.choice(TYPES), rng.choice(ZONES)
    node, provider = f"ip-10-0-{number}.internal", f"aws:///{zone}/i-{number:017x}"
    labels = {
        "karpenter.sh/nodepool": pool,
        "node.kubernetes.io/instance-type": name,
        "topology.kubernetes.io/zone": zone,
        "karpenter.sh/capacity-type": "on-demand",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "acme.example/team": team,
        "karpenter.sh/initialized": "true",
        "karpenter.sh/registered": "true",
    }
    capacity = {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": "29"}
    status = {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
    since = {"creationTimestamp": "2026-11-20T00:00:00Z"}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    held = [{"type": kind, "status": "True"} for kind in ("Launched", "Registered", "Initialized", "Consolidatable")]
    claim = an_object(
        "NodeClaim", f"{pool}-c{number}", {"nodeClassRef": reference, "requirements": []}, labels=labels, **since
    )
    claim["status"] = {**status, "providerID": provider, "nodeName": node, "conditions": held}
    host = {**labels, "kubernetes.io/hostname": node}
    own = an_object("Node", node, {"providerID": provider}, labels=host, annotations={"secret": SECRET}, **since)
    pods = []
    for n in range(rng.randint(0, 2)):
        resources = {"requests": {"cpu": "400m", "memory": "512Mi"}}
        spec = {"nodeName": node, "containers": [{"name": "c", "resources": resources}]}
        owner = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "old", "uid": "u", "controller": True}]
        pod = an_object("Pod", f"old-{number}{n}", spec, "shop", labels={"app": "old"}, ownerReferences=owner, **since)
        pods.append({**pod, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
    return [claim, {**own, "status": status}, *pods]


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    (tmp_path / "catalog.json").write_text(json.dumps(a_catalogue()))

    def ask(command: str, path: Path, *more: str) -> str:
        decision = [
            "--catalog",
            str(tmp_path / "catalog.json"),
            "--now",
            NOW,
            "--improve-iterations",
            "5",
            "-o",
            "json",
        ]
        code = main([command, "-f", str(path), *(() if command == "snapshot" else decision), *more])
        assert code in (0, 1)
        return capsys.readouterr().out

    return ask


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def renamed(value: Any, pseudonyms: Pseudonyms) -> Any:
    """An answer with pseudonyms; lists sorted again, without texts for people."""
    if isinstance(value, dict):
        inner = {
            renamed(key, pseudonyms): renamed(found, pseudonyms) for key, found in value.items() if key != "message"
        }
        return {key: inner[key] for key in sorted(inner)}
    if isinstance(value, list):
        return sorted((renamed(found, pseudonyms) for found in value), key=json.dumps)
    return renamed_text(value, pseudonyms) if isinstance(value, str) else value


def renamed_text(text: str, pseudonyms: Pseudonyms) -> str:
    if text in pseudonyms.names:
        return pseudonyms.names[text]
    namespace, slash, name = text.partition("/")
    if slash and namespace in pseudonyms.namespaces:
        return f"{pseudonyms.namespaces[namespace]}/{renamed_text(name, pseudonyms)}"
    numbered = re.fullmatch(r"(.+)-(\d+)", text)
    return f"{renamed_text(numbered[1], pseudonyms)}-{numbered[2]}" if numbered else text


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("command", ["plan", "consolidate"])
def test_the_answer_about_a_snapshot_is_the_answer_about_the_cluster(
    seed: int, command: str, answer: Any, tmp_path: Path
) -> None:
    """Otherwise, support sees another problem than the user has."""
    cluster = written(tmp_path, "cluster.yaml", yaml.safe_dump_all(a_cluster(seed)))
    plain = written(tmp_path, "plain.json", answer("snapshot", cluster))
    assert answer(command, plain) == answer(command, cluster)
    hidden = written(tmp_path, "hidden.json", answer("snapshot", cluster, "--anonymize"))
    pseudonyms = Pseudonyms(json.loads(plain.read_text())["items"])
    expected = renamed(json.loads(answer(command, cluster)), pseudonyms)
    assert renamed(json.loads(answer(command, hidden)), Pseudonyms([])) == expected


@pytest.mark.parametrize("more", [(), ("--anonymize",)])
def test_a_snapshot_has_no_secret_and_is_deterministic(more: tuple[str, ...], answer: Any, tmp_path: Path) -> None:
    cluster = written(tmp_path, "cluster.yaml", yaml.safe_dump_all(a_cluster(1)))
    turned = written(tmp_path, "turned.yaml", yaml.safe_dump_all(a_cluster(1)[::-1]))
    first = answer("snapshot", cluster, *more)
    assert SECRET not in first
    assert answer("snapshot", turned, *more) == first
    again = written(tmp_path, "again.json", first)
    assert more or answer("snapshot", again) == first


def test_pseudonyms_hide_the_users_names(answer: Any, tmp_path: Path) -> None:
    cluster = written(tmp_path, "cluster.yaml", yaml.safe_dump_all(a_cluster(3)))
    hidden = answer("snapshot", cluster, "--anonymize")
    plain = json.loads(answer("snapshot", cluster))
    names = {item["metadata"]["name"] for item in plain["items"]} | {"acme", "checkout", "billing", "z-team", "shop"}
    assert [name for name in sorted(names) if re.search(rf'"{re.escape(name)}["/-]', hidden)] == []
    assert "topology.kubernetes.io/zone" in hidden
    assert "us-east-1" in hidden


def test_a_compressed_snapshot_is_recognized_by_its_first_bytes(answer: Any, tmp_path: Path) -> None:
    cluster = written(tmp_path, "cluster.yaml", yaml.safe_dump_all(a_cluster(2)))
    packed = tmp_path / "cluster.json.zst"
    assert main(["snapshot", "-f", str(cluster), "--to", str(packed)]) == 0
    assert packed.stat().st_size < len(answer("snapshot", cluster)) / 4
    assert answer("plan", packed) == answer("plan", cluster)
    packed.write_bytes(packed.read_bytes()[:-9])
    assert main(["plan", "-f", str(packed)]) == 2


def test_a_redirected_snapshot_is_compressed_on_request(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the option it is text for other programs, also in a file that is called .zst; -f takes both."""
    cluster = written(tmp_path, "cluster.yaml", yaml.safe_dump_all(a_cluster(2)))
    plain, packed = tmp_path / "plain.json.zst", tmp_path / "cluster.json.zst"
    for path, options in ((plain, ()), (packed, ("--compress",))):
        assert main(["snapshot", "-f", str(cluster), *options]) == 0
        path.write_bytes(capsysbinary.readouterr().out)
    assert json.loads(plain.read_bytes())["kind"] == "List"
    assert packed.read_bytes()[:4] == bytes.fromhex("28b52ffd")
    named = tmp_path / "cluster.packed"
    assert main(["snapshot", "-f", str(cluster), "--compress", "--to", str(named)]) == 0
    assert named.read_bytes() == packed.read_bytes()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert main(["snapshot", "-f", str(cluster), "--compress"]) == 2
    written_then = capsysbinary.readouterr()
    assert written_then.out == b""
    assert b"not for a terminal" in written_then.err


@pytest.mark.parametrize("options", [(), ("--compress",)])
def test_a_snapshot_of_either_form_gives_the_plan_of_its_cluster(
    options: tuple[str, ...], answer: Any, tmp_path: Path
) -> None:
    cluster = written(tmp_path, "cluster.yaml", yaml.safe_dump_all(a_cluster(2)))
    taken = tmp_path / "cluster.json.zst"
    assert main(["snapshot", "-f", str(cluster), *options, "--to", str(taken)]) == 0
    assert answer("plan", taken) == answer("plan", cluster)
