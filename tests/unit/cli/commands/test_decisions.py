"""`plan`, `consolidate` and `explain` on files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.__main__ import main

ROOT = Path(__file__).parents[4]
Capture = pytest.CaptureFixture[str]


def answer(capsys: Capture, *arguments: str, code: int = 0) -> dict[str, Any]:
    assert main([*arguments, "-o", "json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_every_pending_pod_is_in_exactly_one_place(cluster: list[str], capsys: Capture) -> None:
    """The plan lists what to launch, what fits and what does not; one unschedulable pod makes the exit code 1."""
    plan = answer(capsys, "plan", *cluster, code=1)
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
    assert answer(capsys, "plan", *cluster, code=1)["prices"] == {"source": "catalog.json", "region": "", "date": ""}
    dated = {"region": "eu-west-1", "date": "2026-11-20", **json.loads((tmp_path / "catalog.json").read_text())}
    (tmp_path / "catalog.json").write_text(json.dumps(dated))
    main(["plan", *cluster])
    assert "\nprices: eu-west-1 of 2026-11-20, catalog.json\n" in capsys.readouterr().out
    for region, unit in (("cn-north-1", "yuan"), ("eusc-de-east-1", "euros")):
        (tmp_path / "catalog.json").write_text(json.dumps(dated | {"region": region}))
        main(["plan", *cluster])
        assert f"\nprices: {region} of 2026-11-20, catalog.json, in {unit}, shown as $\n" in capsys.readouterr().out
    (tmp_path / "catalog.json").unlink()
    assert answer(capsys, "plan", *cluster[:2])["prices"]["date"] == "2026-07-20"


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
    plan = answer(capsys, "consolidate", *cluster)
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
    assert answer(capsys, "explain", target, *cluster, code=code)["reason"] == reason
    assert main(["explain", target, *cluster, "-o", "table"]) == code
    text = capsys.readouterr().out
    assert all(part in text for part in parts), text


def test_explain_of_an_unknown_object_is_wrong_usage(cluster: list[str], capsys: Capture) -> None:
    """A typo in the name must not look like an answer."""
    assert main(["explain", "nobody", *cluster]) == 2
    assert "'nobody'" in capsys.readouterr().err


def test_a_bad_object_stops_the_command_before_planning(cluster: list[str], capsys: Capture) -> None:
    """A partial plan would be taken for a complete one."""
    bad = "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {tolerations: [{operator: Like}]}"
    (Path(cluster[1]) / "bad.yaml").write_text(bad)
    assert main(["plan", *cluster, "-o", "json"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    for part in ("bad.yaml", "document 1", "Pod bad", "spec.tolerations[0].operator"):
        assert part in captured.err


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


def test_a_region_without_a_built_in_catalogue_is_wrong_usage(cluster: list[str], capsys: Capture) -> None:
    """Prices of another region would be worse than none."""
    assert main(["plan", *cluster[:2], "--region", "mars-1"]) == 2
    assert "mars-1" in capsys.readouterr().err


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
    plan = answer(capsys, "plan", "-f", str(file))
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
    plan = answer(capsys, "plan", "-f", str(file), "--scheduler-config", str(config))
    assert len({claim["zones"][0] for claim in plan["nodeClaims"]}) == 3
    config.write_text("podTopologySpread: {defaultConstraints: [{maxSkew: 0}]}")
    assert main(["plan", "-f", str(file), "--scheduler-config", str(config)]) == 2
    assert "podTopologySpread.defaultConstraints[0].topologyKey" in capsys.readouterr().err


def test_price_terms_change_which_node_is_cheapest(tmp_path: Path, capsys: Capture) -> None:
    """Otherwise, a family with a large discount is never bought."""
    file, terms = tmp_path / "all.yaml", tmp_path / "terms.json"
    file.write_text(POOL_AND_CART)
    before = answer(capsys, "plan", "-f", str(file))
    terms.write_text('{"discounts": [{"percent": "99.9", "instanceFamilies": ["m7i"]}]}')
    after = answer(capsys, "plan", "-f", str(file), "--price-terms", str(terms))
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
    (claim,) = answer(capsys, "plan", "-f", str(file), "--price-terms", str(terms))["nodeClaims"]
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
        assert answer(capsys, "explain", text, *more)["node"] == "ip-1.ec2.internal"
    assert answer(capsys, "explain", "small", *more)["pod"] == "shop/small"


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
    found = answer(capsys, "explain", *words, *cluster, code=code)
    assert found[key] == named


def test_what_each_node_pool_lacks_is_data(cluster: list[str], capsys: Capture) -> None:
    """Columns padded for people are no input for a program."""
    (pool,) = answer(capsys, "explain", "shop/huge", *cluster, code=1)["nodePools"]
    assert (pool["name"], pool["reason"]) == ("default", "NoOfferingFits")
    assert sum(pool["ruledOut"].values()) > 0
    assert pool["nearest"]


def test_a_code_in_small_letters_is_a_name(cluster: list[str], capsys: Capture) -> None:
    """A Deployment may be called budget."""
    assert main(["explain", "budget", *cluster]) == 2
    assert "there is no pod, node, workload or NodePool 'budget'" in capsys.readouterr().err


def test_an_answer_can_be_narrowed_to_a_namespace(cluster: list[str], capsys: Capture) -> None:
    """The whole cluster is planned; `--namespace` chooses what is shown, and a misspelt one is refused."""
    whole = answer(capsys, "plan", *cluster, code=1)
    narrowed = answer(capsys, "plan", *cluster, "-n", "shop", code=1)
    assert narrowed["nodeClaims"] == whole["nodeClaims"]
    assert narrowed["cost"] == whole["cost"]
    for command in ("plan", "consolidate", "status"):
        assert main([command, *cluster, "--namespace", "shp"]) == 2
        assert "did you mean 'shop'?" in capsys.readouterr().err
    nodes = [answer(capsys, "consolidate", *cluster, *words)["blocked"] for words in ((), ("-n", "shop"))]
    assert [[blocked["node"] for blocked in found] for found in nodes] == [["old"], []]  # no pod of shop runs there
    assert {pod.split("/")[0] for pod in answer(capsys, "status", *cluster, "-n", "shop")["pendingPods"]} == {"shop"}
    assert main(["status", "--all", "-n", "shop"]) == 2
    assert "leave out --cluster, --context, --namespace and -f" in capsys.readouterr().err
