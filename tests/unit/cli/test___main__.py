"""`plan`, `consolidate` and `explain` on files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from cli.__main__ import main
from cli.cluster.names import Pseudonyms
from cli.terminal import output
from cli.terminal.output import records
from cli.terminal.style import COLOUR, style
from tests.builders import a_class_manifest
from tests.unit.cli.answers.test_status import CLUSTER, NODE

# A snapshot gives the same answers as the cluster, with or without its names, and holds nothing else.


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


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("command", ["plan", "consolidate"])
def test_the_answer_about_a_snapshot_is_the_answer_about_the_cluster(
    seed: int, command: str, answer: Any, tmp_path: Path
) -> None:
    """Otherwise, support sees another problem than the user has."""
    cluster = written(tmp_path, "cluster.yaml", yaml.safe_dump_all(a_cluster(seed)))
    plain = written(tmp_path, "plain.json", answer("snapshot", cluster))
    answered = answer(command, cluster)
    assert answer(command, plain) == answered
    hidden = written(tmp_path, "hidden.json", answer("snapshot", cluster, "--anonymize"))
    pseudonyms = Pseudonyms(json.loads(plain.read_text())["items"])
    expected = renamed(json.loads(answered), pseudonyms)
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


ROOT = Path(__file__).parents[3]
Capture = pytest.CaptureFixture[str]


def decisions_answer(capsys: Capture, *arguments: str, code: int = 0) -> dict[str, Any]:
    assert main([*arguments, "-o", "json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_every_pending_pod_is_in_exactly_one_place(cluster: list[str], capsys: Capture) -> None:
    """The plan lists what to launch, what fits and what does not; one unschedulable pod makes the exit code 1."""
    plan = decisions_answer(capsys, "plan", *cluster, code=1)
    assert (plan["kind"], plan["now"]) == ("Plan", "2026-11-20T00:00:00Z")
    assert [claim["pods"] for claim in plan["nodeClaims"]] == [["shop/cart-0", "shop/cart-1"]]
    assert plan["nodeClaims"][0]["instanceTypes"] == ["m.small"]
    assert plan["nodeClaims"][0]["price"] == 0.1
    assert plan["bindings"] == [{"pod": "shop/small", "node": "old"}]
    assert [(u["pod"], u["reason"]) for u in plan["unschedulable"]] == [("shop/huge", "NoOfferingFits")]
    assert plan["cost"]["hourly"] == 0.1
    assert plan["timing"]["solveSeconds"] >= 0
    assert plan["timing"]["stoppedBy"] in ("iterations", "time")


def test_warnings_do_not_mix_with_the_output(cluster: list[str], capsys: Capture) -> None:
    """Other programs read standard output."""
    main(["plan", *cluster, "-o", "yaml"])
    captured = capsys.readouterr()
    assert yaml.safe_load(captured.out)["kind"] == "Plan"
    assert "there is no EC2NodeClass 'default'" in captured.err


def test_the_table_names_nodes_pods_and_reasons(cluster: list[str], capsys: Capture) -> None:
    """People read it without colour."""
    assert main(["plan", *cluster, "-o", "table"]) == 1
    text = capsys.readouterr().out
    assert text.startswith(
        "4 pods wait: 2 get 1 new node; 1 fits on 1 existing node; 1 has no place\n$0.1000 an hour, $73 a month"
    )
    assert "default-0  m.small" in text
    assert "no place for shop/huge [NoOfferingFits]" in text
    assert "\x1b" not in text
    main(["plan", *cluster, "--color", "always"])
    assert "\x1b[1m4 pods wait\x1b[0m" in capsys.readouterr().out


def test_the_answer_is_available_in_every_format(cluster: list[str], capsys: Capture) -> None:
    """Scripts need names or one value, people all columns."""
    for form, told in (
        ("name", "nodeclaim.karpenter.sh/default-0\n"),
        ("jsonpath={.nodeClaims[*].pods[*]}", "shop/cart-0 shop/cart-1\n"),
        ("jsonpath=.cost.hourly", "0.1\n"),
        ('jsonpath={.kind}{"\\n"}{.nodeClaims[0].price}', "Plan\n0.1\n"),
        (
            "jsonpath={range .nodeClaims[*]}{.name}:{range .pods[*]} {@}{end};{end}",
            "default-0: shop/cart-0 shop/cart-1;\n",
        ),
    ):
        assert main(["plan", *cluster, "-o", form]) == 1
        assert capsys.readouterr().out == told, form
    main(["plan", *cluster, "-o", "wide"])
    assert "CAPACITY   CPU" in capsys.readouterr().out
    main(["plan", *cluster, "--all"])
    assert "shop/cart-0, shop/cart-1" in capsys.readouterr().out
    assert main(["plan", *cluster, "-o", "jsonpath={.[}"]) == 2
    assert "is not a path such as" in capsys.readouterr().err
    for unmatched in ("{range .nodeClaims[*]}{.name}", "{.kind}{end}"):
        assert main(["plan", *cluster, "-o", f"jsonpath={unmatched}"]) == 2
        assert "without {" in capsys.readouterr().err
    assert main(["plan", *cluster, "-o", "jsn"]) == 2
    assert "did you mean json?" in capsys.readouterr().err


def test_objects_that_a_question_needs_are_named_if_missing(cluster: list[str], capsys: Capture) -> None:
    """A dump without NodeClaims looks complete, and every node then counts as unmanaged."""
    main(["consolidate", *cluster, "-o", "json"])
    told = capsys.readouterr().err
    assert "the input has Nodes but no NodeClaims (no node counts as ours), DaemonSets" in told
    assert "kubectl get nodepools,ec2nodeclasses,nodeclaims" in told


def test_prices_have_a_date(cluster: list[str], tmp_path: Path, capsys: Capture) -> None:
    assert decisions_answer(capsys, "plan", *cluster, code=1)["prices"] == {
        "source": "catalog.json",
        "region": "",
        "date": "",
    }
    dated = {"region": "eu-west-1", "date": "2026-11-20", **json.loads((tmp_path / "catalog.json").read_text())}
    (tmp_path / "catalog.json").write_text(json.dumps(dated))
    main(["plan", *cluster])
    assert "\nprices: eu-west-1 of 2026-11-20, catalog.json\n" in capsys.readouterr().out
    for region, unit in (("cn-north-1", "yuan"), ("eusc-de-east-1", "euros")):
        (tmp_path / "catalog.json").write_text(json.dumps(dated | {"region": region}))
        main(["plan", *cluster])
        assert f"\nprices: {region} of 2026-11-20, catalog.json, in {unit}, shown as $\n" in capsys.readouterr().out
    (tmp_path / "catalog.json").unlink()
    assert decisions_answer(capsys, "plan", *cluster[:2])["prices"]["date"] == "2026-07-20"


def test_an_iteration_bound_gives_the_same_bytes_in_any_process(cluster: list[str]) -> None:
    """A plan that changes with the hash seed cannot be reviewed or replayed."""
    command = [sys.executable, "-m", "cli", "plan", *cluster, "--improve-iterations", "5", "-o", "json"]
    outputs = {
        subprocess.run(  # noqa: S603
            command, cwd=ROOT, capture_output=True, check=False, env={**os.environ, "PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert json.loads(outputs.pop())["timing"] == {"decodeSeconds": None, "solveSeconds": None}


def test_an_unmanaged_node_stays(cluster: list[str], capsys: Capture) -> None:
    """We may not touch it."""
    plan = decisions_answer(capsys, "consolidate", *cluster)
    assert plan["kind"] == "DisruptionPlan"
    assert plan["commands"] == []
    assert [(b["node"], b["reason"]) for b in plan["blocked"]] == [("old", "NotManaged")]
    assert main(["consolidate", *cluster, "-o", "table"]) == 0
    assert "NotManaged" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("target", "reason", "code", "parts"),
    [
        ("shop/huge", "NoOfferingFits", 1, ("unschedulable", "NodePool default", "nearest miss")),
        ("cart-1", None, 0, ("needs a new node, default-0", "m.small", "with 1 other pod")),
        ("shop/small", None, 0, ("fits on existing node old",)),
        ("old", "NotManaged", 0, ("stays",)),
    ],
)
def test_explain_says_what_happened_to_an_object(
    cluster: list[str], capsys: Capture, target: str, reason: str | None, code: int, parts: tuple[str, ...]
) -> None:
    """A controller in a cluster cannot answer this; an unschedulable pod is a negative answer."""
    assert decisions_answer(capsys, "explain", target, *cluster, code=code)["reason"] == reason
    assert main(["explain", target, *cluster, "-o", "table"]) == code
    text = capsys.readouterr().out
    assert all(part in text for part in parts), text


@pytest.mark.parametrize(
    ("content", "part"), [("{", "not JSON"), ('{"instanceTypes": [{"name": "a", "capacity": {"cpu": "x"}}]}', "cpu")]
)
def test_a_bad_catalogue_is_named(cluster: list[str], capsys: Capture, content: str, part: str) -> None:
    """The message gives file, type and field."""
    Path(cluster[3]).write_text(content)
    assert main(["plan", *cluster]) == 2
    message = capsys.readouterr().err
    assert "catalog.json" in message
    assert part in message


POOL_AND_CART = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cart, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: cart}}
  template:
    metadata: {labels: {app: cart}}
    spec: {containers: [{name: c, resources: {requests: {cpu: 100m, memory: 64Mi}}}]}
"""

BUFFER = """---
apiVersion: autoscaling.x-k8s.io/v1alpha1
kind: CapacityBuffer
metadata: {name: spare, namespace: shop}
spec: {scalableRef: {kind: Deployment, name: cart}, percentage: 50}
"""


def test_a_capacity_buffer_keeps_room_beside_the_pods(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of three pods more, rounded up; a missing feature gate is reported."""
    file = tmp_path / "all.yaml"
    file.write_text(POOL_AND_CART + BUFFER)
    monkeypatch.setenv("FEATURE_GATES", "CapacityBuffer=true")
    plan = decisions_answer(capsys, "plan", "-f", str(file))
    kept = sorted(pod for claim in plan["nodeClaims"] for pod in claim.get("bufferPods", ()))
    assert kept == ["shop/capacity-buffer-spare-1", "shop/capacity-buffer-spare-2"]
    assert plan["buffers"] == [{"buffer": "shop/spare", "onExistingNodes": 0, "onNewNodes": 2, "withoutRoom": 0}]
    monkeypatch.delenv("FEATURE_GATES")
    assert main(["plan", "-f", str(file), "-o", "json"]) == 0
    captured = capsys.readouterr()
    assert "buffers" not in json.loads(captured.out)
    assert "FEATURE_GATES=CapacityBuffer=true" in captured.err


def test_the_schedulers_default_spreads_apply_to_workloads_in_files(tmp_path: Path, capsys: Capture) -> None:
    """Pods expanded from a Deployment have no ReplicaSet with a selector."""
    file, config = tmp_path / "all.yaml", tmp_path / "scheduler.yaml"
    file.write_text(POOL_AND_CART)
    config.write_text(
        "podTopologySpread: {defaultConstraints: "
        "[{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}"
    )
    plan = decisions_answer(capsys, "plan", "-f", str(file), "--scheduler-config", str(config))
    assert len({claim["zones"][0] for claim in plan["nodeClaims"]}) == 3
    config.write_text("podTopologySpread: {defaultConstraints: [{maxSkew: 0}]}")
    assert main(["plan", "-f", str(file), "--scheduler-config", str(config)]) == 2
    assert "podTopologySpread.defaultConstraints[0].topologyKey" in capsys.readouterr().err


def test_price_terms_change_which_node_is_cheapest(tmp_path: Path, capsys: Capture) -> None:
    """Otherwise, a family with a large discount is never bought."""
    file, terms = tmp_path / "all.yaml", tmp_path / "terms.json"
    file.write_text(POOL_AND_CART)
    before = decisions_answer(capsys, "plan", "-f", str(file))
    terms.write_text('{"discounts": [{"percent": "99.9", "instanceFamilies": ["m7i"]}]}')
    after = decisions_answer(capsys, "plan", "-f", str(file), "--price-terms", str(terms))
    (listed,), (paid,) = (plan["nodeClaims"] for plan in (before, after))
    assert not listed["instanceTypes"][0].startswith("m7i.")
    assert paid["instanceTypes"][0].startswith("m7i.")
    assert paid["price"] < listed["price"]
    terms.write_text('{"discounts": [{"percent": 300}]}')
    assert main(["plan", "-f", str(file), "--price-terms", str(terms)]) == 2
    assert "discounts[0].percent: 300 is not a percentage from 0 to 100" in capsys.readouterr().err


def test_a_commitment_covers_new_nodes_up_to_its_amount(tmp_path: Path, capsys: Capture) -> None:
    """The plan says which hours are paid for: the price alone would look like a mistake."""
    file, terms = tmp_path / "all.yaml", tmp_path / "terms.json"
    file.write_text(POOL_AND_CART)
    reserved = '{"reservedInstances": [{"name": "bought", "instanceType": "m7i.%s", "count": 1%s}]}'
    terms.write_text(reserved % ("24xlarge", ""))
    (claim,) = decisions_answer(capsys, "plan", "-f", str(file), "--price-terms", str(terms))["nodeClaims"]
    assert (claim["commitment"], claim["capacityTypes"]) == ("bought", ["on-demand"])
    assert {name.partition(".")[0] for name in claim["instanceTypes"]} == {"m7i"}
    assert main(["plan", "-f", str(file), "--price-terms", str(terms)]) == 0
    shown = capsys.readouterr().out
    assert "bought covers 1 new node" in shown
    assert "on-demand (bought)" in shown
    terms.write_text(reserved % ("large", ', "endsAt": "2020-01-01T00:00:00Z"'))
    assert main(["plan", "-f", str(file), "--price-terms", str(terms)]) == 0
    found = capsys.readouterr()
    assert "commitment bought ended at 2020-01-01T00:00:00+0000, so it covers nothing" in found.err
    assert "bought covers" not in found.out


def test_price_terms_of_a_file_are_refused_beside_the_functions_own(tmp_path: Path, capsys: Capture) -> None:
    """A file that is ignored in silence would be taken for the functions' terms."""
    assert main(["plan", "--cluster", "shop", "--price-terms", str(tmp_path / "terms.json")]) == 2
    assert "the functions' own terms count with --cluster" in capsys.readouterr().err


def test_a_node_is_found_without_its_domain_unless_a_pod_is_called_so(
    cluster: list[str], capsys: Capture, tmp_path: Path
) -> None:
    """The log shows `ip-10-0-0-4` for what Kubernetes calls `ip-10-0-0-4.ec2.internal`."""
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"{name}.ec2.internal"}} for name in ("ip-1", "small")
    ]
    (tmp_path / "nodes.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    more = [*cluster, "-f", str(tmp_path / "nodes.json")]
    for text in ("ip-1", "node/ip-1", "ip-1.ec2.internal"):
        assert decisions_answer(capsys, "explain", text, *more)["node"] == "ip-1.ec2.internal"
    assert decisions_answer(capsys, "explain", "small", *more)["pod"] == "shop/small"


@pytest.mark.parametrize(
    ("words", "key", "named", "code"),
    [
        (("cart-1", "-n", "shop"), "pod", "shop/cart-1", 0),
        (("pod/cart-1",), "pod", "shop/cart-1", 0),
        (("nodepool/default",), "nodePool", "default", 0),
        (("default",), "nodePool", "default", 0),
        (("LimitReached",), "code", "LimitReached", 0),
    ],
)
def test_whatever_has_a_name_is_explained(
    cluster: list[str], capsys: Capture, words: tuple[str, ...], key: str, named: str, code: int
) -> None:
    """Users type the name that they know."""
    found = decisions_answer(capsys, "explain", *words, *cluster, code=code)
    assert found[key] == named


def test_what_each_node_pool_lacks_is_data(cluster: list[str], capsys: Capture) -> None:
    """Columns padded for people are no input for a program."""
    (pool,) = decisions_answer(capsys, "explain", "shop/huge", *cluster, code=1)["nodePools"]
    assert (pool["name"], pool["reason"]) == ("default", "NoOfferingFits")
    assert sum(pool["ruledOut"].values()) > 0
    assert pool["nearest"]


def test_a_code_in_small_letters_is_a_name(cluster: list[str], capsys: Capture) -> None:
    """A Deployment may be called budget."""
    assert main(["explain", "budget", *cluster]) == 2
    assert "there is no pod, node, workload, group or NodePool 'budget'" in capsys.readouterr().err


def test_an_answer_can_be_narrowed_to_a_namespace(cluster: list[str], capsys: Capture) -> None:
    """The whole cluster is planned; `--namespace` chooses what is shown, and a misspelt one is refused."""
    whole = decisions_answer(capsys, "plan", *cluster, code=1)
    narrowed = decisions_answer(capsys, "plan", *cluster, "-n", "shop", code=1)
    assert narrowed["nodeClaims"] == whole["nodeClaims"]
    assert narrowed["cost"] == whole["cost"]
    for command in ("plan", "consolidate", "status"):
        assert main([command, *cluster, "--namespace", "shp"]) == 2
        assert "did you mean 'shop'?" in capsys.readouterr().err
    nodes = [decisions_answer(capsys, "consolidate", *cluster, *words)["blocked"] for words in ((), ("-n", "shop"))]
    assert [[blocked["node"] for blocked in found] for found in nodes] == [["old"], []]  # no pod of shop runs there
    assert {pod.split("/")[0] for pod in decisions_answer(capsys, "status", *cluster, "-n", "shop")["pendingPods"]} == {
        "shop"
    }
    assert main(["status", "--all", "-n", "shop"]) == 2
    assert "leave out --cluster, --context, --namespace and -f" in capsys.readouterr().err


# Terminals of any width: the program breaks the lines, at spaces, and never the terminal.


WRITTEN_COLOUR = re.compile(r"\x1b\[\d+m")
COMMANDS = (
    ["plan"],
    ["plan", "--all"],
    ["plan", "-o", "wide", "--color", "always"],
    ["consolidate", "--all"],
    ["explain", "shop/huge"],
    ["status", "-o", "wide"],
)


@pytest.mark.parametrize("columns", [20, 60])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_line_is_wider_than_the_terminal(
    command: list[str], columns: int, cluster: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At 60 columns a plan had 67, at 40 its lines were made for 60: the terminal broke them anywhere."""
    (tmp_path / "cluster" / "node.yaml").write_text(CLUSTER, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "is_on", style.is_on)  # the command chooses it for the whole process
        patch.setenv("COLUMNS", str(columns))
        patch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        main([*command, *cluster])
    for line in WRITTEN_COLOUR.sub("", capsys.readouterr().out).splitlines():
        assert len(line) <= columns or len(line.split()) == 1, line


def test_a_row_that_does_not_fit_has_a_line_for_each_column(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names stay whole, and empty columns are left out."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    rows = [(NODE, "it is drifted, and goes", "m5.large", 3), ("b", "", "", "")]
    drawn = COLOUR.sub("", output.table(("NODE", "WHY", "TYPE", "PODS"), rows))
    assert drawn.splitlines() == ["NODE", NODE, "  WHY   it is drifted, and goes", "  TYPE  m5.large", "  PODS  3", "b"]


def test_a_pipe_gets_a_row_in_one_line_however_long() -> None:
    """Programs look for a name in a line."""
    names = [f"{'n' * 30}-{number}" for number in range(5)]
    assert output.table(("A", "B", "C", "D", "E"), [names]).splitlines()[1].split() == names


def test_a_cell_of_spaces_has_no_line() -> None:
    assert list(records(["NAME", "ZONE", "POD"], [["node", "  ", "web"]], 20)) == ["node", "  POD   web"]
