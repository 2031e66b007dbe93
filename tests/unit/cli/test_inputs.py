"""What a decision reads: which objects, prices, region and options count, and what is said where they are in doubt."""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import yaml

from cli import arguments, inputs
from cli.__main__ import main
from cli.arguments import fetch_hint
from cli.cluster import own_state
from cli.errors import InputError
from cli.inputs import OF_NODES, builtin_or_given, missing, read_catalogue, read_inputs, region_of
from cli.manifests import KUBECTL
from cli.manifests.inventory import Document
from core import labels
from core.catalogue.build import StalePart
from core.manifests.assemble import ObjectProblem
from core.manifests.wire import resources
from core.manifests.wire.resources import PODS
from core.model.snapshot import Options
from tests.builders import NOW, a_class_manifest, a_snapshot
from tests.unit.cli.conftest import CATALOG, MANIFESTS

BUFFER = "apiVersion: autoscaling.x-k8s.io/v1beta1\nkind: CapacityBuffer\nmetadata: {name: b, namespace: a}\nspec: {}\n"
NODE = {"kind": "Node", "metadata": {"name": "n", "labels": {labels.REGION: "eu-west-1"}}}
Capture = pytest.CaptureFixture[str]


def given(*words: str, **more: Any) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    arguments.add_files(parser, is_required=False)
    arguments.add_decision(parser)
    return argparse.Namespace(**{**vars(parser.parse_args(words)), **more})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "all.yaml").write_text(MANIFESTS)
    (tmp_path / "prices.json").write_text(json.dumps(CATALOG))
    return tmp_path


def test_the_region_is_the_one_asked_for_else_the_one_that_is_named_else_the_usual_one() -> None:
    document = Document("-", 0, NODE)
    assert region_of(given("--region", "ap-south-1"), [document]) == "ap-south-1"
    assert region_of(given(), [document]) == "eu-west-1"
    assert region_of(given(), []) == "us-east-1"


def test_prices_say_where_they_are_from(folder: Path) -> None:
    files = ("-f", str(folder / "all.yaml"))
    builtin = read_inputs(given(*files, "--region", "eu-west-1")).prices
    assert (builtin["region"], builtin["source"]) == (
        "eu-west-1",
        "on-demand list; newer types are estimated, and spot is modelled",
    )
    assert datetime.fromisoformat(builtin["date"]) > datetime(2025, 1, 1)  # noqa: DTZ001 - a date
    (folder / "own.json").write_text(json.dumps({**CATALOG, "region": "eu-north-1", "date": "2026-11-01"}))
    assert read_inputs(given(*files, "--catalog", str(folder / "own.json"))).prices["source"] == "own.json"


def test_a_region_without_built_in_prices_says_how_to_read_them() -> None:
    with pytest.raises(InputError) as refused:
        builtin_or_given(given(), "mars-1", [])
    assert refused.value.source == "--region"
    assert refused.value.hint == fetch_hint("mars-1")


def test_annotations_of_pods_that_stand_on_their_owner_are_told(folder: Path, capsys: Capture) -> None:
    """The pods are planned for one by one, and nobody learns why; a Deployment gives its ReplicaSets what it has."""
    group = {labels.GROUP: "g", labels.GROUP_MINIMUM: "2"}
    owner = {"metadata": {"name": "d", "annotations": group}, "spec": {"template": {}}}
    owned = {"metadata": {"name": "r", "annotations": group, "ownerReferences": [{"kind": "Deployment", "name": "d"}]}}
    plain = {"metadata": {"name": "n", "annotations": {labels.DO_NOT_DISRUPT: "true"}}}
    odd = [{"metadata": None}, {"metadata": {"annotations": [labels.GROUP]}}]
    kinds = (("Deployment", owner), ("ReplicaSet", owned), ("Node", plain), *(("Deployment", part) for part in odd))
    documents = [Document("-", number, {"kind": kind, **part}) for number, (kind, part) in enumerate(kinds)]
    told = inputs._idle_annotations(documents)
    assert [(warning["object"], warning["reason"], warning["field"]) for warning in told] == [
        ("Deployment/d", "NoEffect", f"metadata.annotations[{key}]") for key in group
    ]
    capsys.readouterr()
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", **owner, "spec": spec}
    (folder / "owner.yaml").write_text(yaml.safe_dump(deployment))
    words = ("-f", str(folder / "all.yaml"), "-f", str(folder / "owner.yaml"), "--catalog", str(folder / "prices.json"))
    read_inputs(given(*words))
    assert "Deployment d: metadata.annotations[fleetwright.dev/group]: has no effect here" in capsys.readouterr().err


def test_a_file_of_prices_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_catalogue(str(tmp_path / "none.json"))
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(InputError) as refused:
        read_catalogue(str(tmp_path / "bad.json"))
    assert refused.value.source == str(tmp_path / "bad.json")


def test_the_clock_and_the_options_are_those_of_the_arguments(folder: Path) -> None:
    words = ("--now", "2026-11-20T00:00:00Z", "--seed", "7", "--improve-iterations", "3")
    found = read_inputs(given("-f", str(folder / "all.yaml"), "--catalog", str(folder / "prices.json"), *words))
    assert found.snapshot.now == datetime(2026, 11, 20, tzinfo=UTC)
    assert (found.snapshot.options.seed, found.snapshot.options.improve_iterations) == (7, 3)
    assert found.own is None
    assert 0 < found.decode_seconds < 60
    present = read_inputs(given("-f", str(folder / "all.yaml"), "--catalog", str(folder / "prices.json")))
    assert abs((datetime.now(UTC) - present.snapshot.now).total_seconds()) < 60


def test_buffers_are_not_silently_ignored(folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "buffer.yaml").write_text(BUFFER)
    words = ("-f", str(folder / "buffer.yaml"), "--catalog", str(folder / "prices.json"))
    told = "warning: CapacityBuffers count only with FEATURE_GATES=CapacityBuffer=true in the environment\n"
    read_inputs(given(*words))
    assert told in capsys.readouterr().err
    read_inputs(given("-f", str(folder / "all.yaml"), "--catalog", str(folder / "prices.json")))
    assert told not in capsys.readouterr().err
    monkeypatch.setenv("FEATURE_GATES", "CapacityBuffer=true")
    read_inputs(given(*words))
    assert told not in capsys.readouterr().err


def test_empty_input_is_an_error_unless_it_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("")
    words = ("-f", str(tmp_path / "empty.yaml"))
    with pytest.raises(InputError, match="the input has no object"):
        read_inputs(given(*words))
    assert read_inputs(given(*words, "--allow-empty")).snapshot.pods == ()


def test_an_object_that_cannot_be_used_is_named_with_its_field(tmp_path: Path) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}}
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "lots"}}}]}
    (tmp_path / "pod.json").write_text(json.dumps({**pod, "spec": spec}))
    read = read_inputs(given("-f", str(tmp_path / "pod.json")))
    (aside,) = read.set_aside
    problem = "spec.containers[0].resources.requests.cpu: 'lots' is not a quantity such as 500m, 2 or 1.5Gi"
    assert (aside.object, aside.reason) == ("Pod/a/p", "CannotBeRead")
    assert aside.message == f"{tmp_path / 'pod.json'}: document 1: {problem}"
    (waits,) = read.snapshot.pods
    assert (waits.unreadable, waits.spec.problem_reason) == (problem, "SetAside")


def test_a_class_that_cannot_be_read_ends_no_plan(tmp_path: Path) -> None:
    """Its kubelet settings were looked at once more, where nothing caught the error."""
    spec = {"kubelet": {"maxPods": 20}, "tags": {"a": "b"}, "subnetSelectorTerms": [{"tags": []}]}
    written = {**a_class_manifest("bad"), "spec": {**a_class_manifest("bad")["spec"], **spec}}
    (tmp_path / "class.json").write_text(json.dumps(written))
    read = read_inputs(given("-f", str(tmp_path / "class.json")))
    assert [aside.object for aside in read.set_aside] == ["EC2NodeClass/bad"]


def test_commitments_that_have_ended_are_told(folder: Path, capsys: Capture) -> None:
    ends = {"over": "2026-11-20T00:00:00Z", "runs": "2026-11-20T00:00:01Z"}
    reserved = [{"name": name, "instanceType": "m.small", "count": 1, "endsAt": at} for name, at in ends.items()]
    (folder / "terms.json").write_text(json.dumps({"reservedInstances": reserved}))
    words = ("-f", str(folder / "all.yaml"), "--catalog", str(folder / "prices.json"), "--now", "2026-11-20T00:00:00Z")
    found = read_inputs(given(*words, "--price-terms", str(folder / "terms.json"))).snapshot.options
    assert [one.name for one in found.commitments] == ["over", "runs"]
    ended = [line for line in capsys.readouterr().err.splitlines() if "commitment" in line]
    path = folder / "terms.json"
    assert ended == [f"warning: {path}: commitment over ended at 2026-11-20T00:00:00+0000, so it covers nothing"]
    (folder / "terms.json").write_text("[]")
    with pytest.raises(InputError) as refused:
        read_inputs(given(*words, "--price-terms", str(folder / "terms.json")))
    assert refused.value.source == str(path)


def test_own_terms_of_prices_change_prices_commitments_and_dedicated_hardware(folder: Path) -> None:
    terms = {
        "discounts": [{"percent": 50}],
        "dedicatedTenancyPercent": 10,
        "reservedInstances": [{"name": "one", "instanceType": "m.small", "count": 1}],
    }
    (folder / "terms.json").write_text(json.dumps(terms))
    words = ("-f", str(folder / "all.yaml"), "--catalog", str(folder / "prices.json"))
    before = read_inputs(given(*words)).snapshot
    after = read_inputs(given(*words, "--price-terms", str(folder / "terms.json"))).snapshot
    prices = [[one.price for one in found.catalogue.types_for("default")[0].offerings] for found in (before, after)]
    assert prices == [[100_000_000], [50_000_000]]
    assert (before.options.commitments, before.options.dedicated_ppm) == ((), 0)
    assert ([one.name for one in after.options.commitments], after.options.dedicated_ppm) == (["one"], 100_000)


def test_objects_that_were_read_before_are_not_read_again_even_beside_a_cluster(folder: Path) -> None:
    words = ("--catalog", str(folder / "prices.json"), "-f", str(folder / "none.yaml"))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}, "spec": {}}
    for cluster in (None, "prod"):
        found = read_inputs(given(*words, cluster=cluster), [Document("-", 0, pod)])
        assert [one.key for one in found.snapshot.pods] == ["a/p"]
        assert found.own is None


@pytest.mark.parametrize(
    ("kinds", "uid", "presumed"),
    [
        ((), "", ["default"]),
        (("StorageClass",), "", ["default"]),  # manifests that are yet to be applied
        (("StorageClass",), "u", []),  # a cluster without nodes
        (("StorageClass", "Node"), "", []),
    ],
)
def test_a_default_storage_class_is_presumed_unless_the_files_are_a_copy_of_a_cluster(
    folder: Path, kinds: tuple[str, ...], uid: str, presumed: list[str]
) -> None:
    """The API server gives a claim the default class only if there is one; the claim is then never bound."""
    volume = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "a", "uid": uid}, "spec": {"volumes": [volume]}}
    others = [{"kind": kind, "metadata": {"name": "other"}, "provisioner": "ebs.csi.aws.com"} for kind in kinds]
    versions = {"StorageClass": "storage.k8s.io/v1"}
    documents = [
        Document("-", number, {"apiVersion": versions.get(obj["kind"], "v1"), **obj})
        for number, obj in enumerate([pod, *others])
    ]
    words = ("--catalog", str(folder / "prices.json"), "-f", str(folder / "none.yaml"))
    classes = read_inputs(given(*words), documents).snapshot.storage_classes
    assert [found.name for found in classes if found.is_default] == presumed


def test_without_files_the_objects_are_those_of_the_kubeconfigs_cluster(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}, "spec": {}}
    asked: list[str] = []
    words = ("--catalog", str(folder / "prices.json"))

    def live(context: str) -> list[Document]:
        asked.append(context)
        return [Document("-", 0, pod)]

    monkeypatch.setattr("cli.cluster.live.read_live", live)
    assert [one.key for one in read_inputs(given(*words, context="other")).snapshot.pods] == ["a/p"]
    assert asked == ["other"]


def test_a_node_that_names_its_claim_needs_no_node_claims(folder: Path, capsys: Capture) -> None:
    def told(*annotations: dict[str, str]) -> bool:
        nodes = [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}", "annotations": one}}
            for number, one in enumerate(annotations)
        ]
        (folder / "nodes.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
        words = ("-f", str(folder / "nodes.json"), "--catalog", str(folder / "prices.json"))
        read_inputs(given(*words, command="consolidate"))
        return "no node counts as ours" in capsys.readouterr().err

    assert told({})
    assert told({}, {"other": "x"})
    assert not told({}, {labels.CLAIM: "n1"})


def test_own_terms_of_prices_are_refused_where_the_functions_have_theirs() -> None:
    with pytest.raises(InputError) as refused:
        read_inputs(given("--price-terms", "t.json", cluster="prod"))
    assert refused.value.source == "--price-terms"


class Cluster:
    """What the functions of an installation see, and what was given to read them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
        self.options = Options(evictions_per_hour=9, seed=3, improve_iterations=50, part_nodes=500)
        fields = {"snapshot": a_snapshot(), "stale_market": (), "prices_read_at": NOW, **changes}
        view = SimpleNamespace(problems=fields.pop("problems", ()))
        self.own = SimpleNamespace(view=view, **fields)
        self.asked: list[Any] = []
        session = SimpleNamespace(region_name="eu-west-1")
        settings = SimpleNamespace(options=lambda: self.options)
        self.installation: Any = SimpleNamespace(cluster="prod", stack="s", settings=settings, session=session)
        monkeypatch.setattr(own_state, "read_own_state", self._read)

    def _read(self, installation: Any, objects: Any, now: Any) -> Any:
        assert installation is self.installation
        self.asked.append((objects, now))
        return self.own

    def observed(self, *words: str, **more: Any) -> inputs.DecisionInputs:
        return inputs.observe_installation(self.installation, given(*words, context=None, **more), 0.0)


def test_a_cluster_of_ours_is_decided_about_with_its_own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Except for what a user may try: how long to search, how much moves count, whose moves."""
    cluster = Cluster(monkeypatch)
    found = cluster.observed(
        *("--seed", "8", "--improve-iterations", "2"),
        policy="karpenter",
        ignore_budgets=True,
        moves="gentle",
        move_price=5,
    )
    expected = msgspec.structs.replace(
        cluster.options,
        seed=8,
        improve_iterations=2,
        karpenter_moves_only=True,
        ignore_budgets=True,
        moves="gentle",
        move_price=5,
    )
    assert found.snapshot.options == expected
    assert cluster.observed(part_nodes=70).snapshot.options.part_nodes == 70
    cluster.asked.pop()
    assert found.own is cluster.own
    assert found.prices == {"source": "the functions of s", "region": "eu-west-1", "date": f"{NOW:%Y-%m-%d}"}
    assert cluster.asked == [(None, None)]


def test_the_installation_is_found_by_all_that_is_said_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, found = Cluster(monkeypatch), []

    def find(name: str, **words: Any) -> Any:
        found.append((name, words))
        return cluster.installation

    monkeypatch.setattr("cli.cluster.own_state.find_installation", find)
    words = {"region": "eu-west-1", "profile": "mine", "stack": "s"}
    assert read_inputs(given(cluster="prod", context=None, **words)).own is cluster.own
    assert found == [("prod", words)]


def test_prices_that_were_never_read_have_no_date(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Cluster(monkeypatch, prices_read_at=None).observed().prices["date"] == ""


def test_objects_of_files_take_the_place_of_the_clusters(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    cluster = Cluster(monkeypatch)
    cluster.observed("-f", str(folder / "all.yaml"), "--now", "2026-11-20T00:00:00Z")
    ((objects, now),) = cluster.asked
    assert objects.total == 5
    assert now == datetime(2026, 11, 20, tzinfo=UTC)


def test_what_is_in_doubt_is_said_with_the_cluster_where_there_are_several(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    doubts = {
        "problems": (ObjectProblem(resource=PODS, position=0, subject="Pod a/p", field="", problem="cpu is odd"),),
        "stale_market": (StalePart("Prices", "prices were last read in May"),),
    }
    cluster = Cluster(monkeypatch, **doubts)
    cluster.observed()
    stale = "prices were last read in May: see the alarm `denied`, cause `staleMarket`"
    assert capsys.readouterr().err == f"warning: Pod a/p: cpu is odd\nwarning: {stale}\n"
    cluster.observed(all=True)
    assert capsys.readouterr().err == f"warning: prod: Pod a/p: cpu is odd\nwarning: prod: {stale}\n"


def test_free_addresses_that_a_class_has_read_limit_the_plan(folder: Path) -> None:
    reading = '{"readAt": "2026-11-20T00:00:00Z", "perNode": 1, "free": {"subnet-1": 3}}'
    subnets = [{"id": "subnet-1", "zone": "us-east-1a", "zoneID": "use1-az1"}]
    words = ("--now", "2026-11-20T00:00:00Z", "-f", str(folder / "class.json"))
    words += ("--catalog", str(folder / "prices.json"))
    for written, left in (({labels.SUBNET_ADDRESSES: reading}, True), ({}, False)):
        manifest = a_class_manifest(metadata={"annotations": written}, status={"subnets": subnets})
        (folder / "class.json").write_text(json.dumps(manifest))
        assert bool(read_inputs(given(*words)).snapshot.subnet_addresses) == left
    other = a_class_manifest(metadata={"name": "other"}, status={"subnets": subnets})
    read = a_class_manifest(metadata={"annotations": {labels.SUBNET_ADDRESSES: reading}}, status={"subnets": subnets})
    (folder / "class.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [other, read]}))
    assert read_inputs(given(*words)).snapshot.subnet_addresses


def test_a_field_that_a_plan_drops_is_a_warning_with_its_path() -> None:
    """Otherwise, the plan of a newer Karpenter's manifests looks complete."""
    pool = (
        "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: new}\nspec: {canary: 1, template: {spec: {}}}\n"
    )
    overlay = (
        "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: o}\nspec: {requirements: [], kept: 1}\n"
    )
    claim = (
        "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: c}\nspec: {requirements: [], wake: {at: 1}}\n"
    )
    documents = [
        Document("-", index, yaml.safe_load(text)) for index, text in enumerate((pool, overlay, claim, BUFFER))
    ]
    found = inputs._dropped_fields(documents)
    assert [(warning["object"], warning["field"]) for warning in found] == [
        ("NodePool/new", "spec.canary"),
        ("NodeOverlay/o", "spec.kept"),
        ("NodeClaim/c", "spec.wake"),
    ]


def test_plan_and_validate_name_a_field_of_each_kind_that_this_version_does_not_know(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = {"group": labels.AWS_GROUP, "kind": "EC2NodeClass", "name": "x"}
    kinds = {
        "NodePool": ("karpenter.sh/v1", {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}}),
        "NodeClaim": ("karpenter.sh/v1", {"nodeClassRef": reference, "requirements": []}),
        "NodeOverlay": (
            "karpenter.sh/v1alpha1",
            {"price": "0.5", "requirements": [{"key": "a", "operator": "Exists"}]},
        ),
        "EC2NodeClass": ("karpenter.k8s.aws/v1", a_class_manifest()["spec"]),
    }
    documents = [
        {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": {**spec, "hibernation": True}}
        for kind, (version, spec) in kinds.items()
    ]
    path = tmp_path / "all.yaml"
    path.write_text("\n---\n".join(map(json.dumps, documents)))
    main(["plan", "-f", str(path), "-o", "json"])
    warned = json.loads(capsys.readouterr().out)["warnings"]
    main(["validate", "-f", str(path), "-o", "json"])
    problems = json.loads(capsys.readouterr().out)["problems"]
    named = {f"{kind}/x" for kind in kinds}
    assert {one["object"] for one in warned if one["field"] == "spec.hibernation"} == named
    assert {one["object"] for one in problems if one["field"] == "spec.hibernation"} == named


# A cluster's input without a kind that the answer depends on is warned about, by what follows.


POOLS, CLAIMS = "NodePools (nothing can be launched)", "NodeClaims (no node counts as ours)"
DAEMONS = "DaemonSets (new nodes are planned without room for them)"
NO_PODS, NO_BUDGETS = "Pods (every node looks empty)", "PodDisruptionBudgets (evictions look unlimited)"


@pytest.mark.parametrize(
    ("command", "lacking"),
    [
        ("plan", (POOLS, CLAIMS, DAEMONS, NO_PODS)),
        ("explain", (POOLS, CLAIMS, DAEMONS)),
        ("consolidate", (POOLS, CLAIMS, DAEMONS, NO_PODS, NO_BUDGETS)),
        ("savings", (POOLS, CLAIMS, DAEMONS, NO_PODS, NO_BUDGETS)),
        ("status", (POOLS, CLAIMS, NO_PODS)),
        ("validate", ()),
    ],
)
def test_nodes_alone_are_not_a_cluster(command: str, lacking: tuple[str, ...]) -> None:
    nodes = {resources.NODES: [1]}
    text = f"the input has Nodes but no {', '.join(lacking)}; complete: {KUBECTL}" if lacking else ""
    assert missing(command, nodes, ours_by_annotation=False) == text
    assert missing(command, nodes, ours_by_annotation=True) == text.replace(f"{CLAIMS}, ", "")
    if command not in OF_NODES:
        assert missing(command, {}, ours_by_annotation=False) == ""


def test_what_has_no_nodes_has_none_that_could_go() -> None:
    """`no node goes; $0.0000 an hour` looked like an answer, and so did savings of $0."""
    text = f"the input has no Nodes, so none can go; complete: {KUBECTL}"
    assert [missing(command, {resources.PODS: [1]}, ours_by_annotation=False) for command in OF_NODES] == [text, text]


def test_what_is_there_or_is_not_needed_is_not_missed() -> None:
    most = {resources.NODES: [1], resources.NODE_POOLS: [1], resources.DAEMON_SETS: [1], resources.PODS: [1]}
    assert missing("plan", most, ours_by_annotation=True) == ""
    assert missing("plan", most | {resources.PODS: []}, ours_by_annotation=True).startswith(
        f"the input has Nodes but no {NO_PODS};"
    )
    assert missing("plan", most, ours_by_annotation=False).startswith(f"the input has Nodes but no {CLAIMS};")
    assert missing("plan", {resources.NODES: []}, ours_by_annotation=False) == ""


def test_a_value_that_says_nothing_is_told_once_by_plans_and_explanations(folder: Path, capsys: Capture) -> None:
    """`validate` told it; who plans saw a reason code at most, and for some annotations nothing."""
    notes = {labels.GROUP: "g", labels.GROUP_MINIMUM: "many", labels.GROUP_DISRUPTION: "none"}
    spec = {"containers": [{"name": "c", "image": "c", "resources": {"requests": {"cpu": "1"}}}]}
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{n}", "annotations": notes}, "spec": spec}
        for n in range(2)
    ]
    (folder / "pods.yaml").write_text(yaml.safe_dump_all(pods))
    files = ("-f", str(folder / "all.yaml"), "-f", str(folder / "pods.yaml"), "--catalog", str(folder / "prices.json"))
    for command in (("plan",), ("explain", "pod/p0")):
        main([*command, *files, "-o", "json"])
        told = [line for line in capsys.readouterr().err.splitlines() if "default/p" in line]
        assert [line.partition("metadata.")[2].partition(":")[0] for line in told] == [
            f"annotations[{labels.GROUP_MINIMUM}]",
            f"annotations[{labels.GROUP_DISRUPTION}]",
        ]
