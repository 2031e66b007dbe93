"""Keys that nearly have the name of a node label, wherever a workload or a NodePool asks for one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cli.manifests.inventory import Document
from cli.validation.pools import (
    KnownValues,
    disagreeing_limits,
    empty_pools,
    idle_limits,
    label_findings,
    nearest_label,
    provided_labels,
    short_lives,
    unmatched_values,
)
from core import labels
from core.model.catalogue import Catalogue
from simulator.market.embedded import builtin_catalogue
from tests.builders import a_type
from tests.unit.api.objects import NODE_POOL, changed
from tests.unit.cli.test___main___validate_mistakes import DEPLOYMENT, TEMPLATE

# Which node label a key probably means.


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        (labels.ZONE, ""),
        ("zone", labels.ZONE),
        ("kubernetes.io/zone", labels.ZONE),
        ("example.com/zone", ""),
        ("arch", labels.ARCH),
        ("kubernetes.io/arc", labels.ARCH),
        ("arc", ""),
        ("zne", ""),
        ("karpenter.sh/capacitytype", labels.CAPACITY_TYPE),
        ("team", ""),
    ],
)
def test_a_key_of_the_right_name_or_nearly_the_right_spelling_means_a_label(key: str, meant: str) -> None:
    assert nearest_label(key) == meant
    assert nearest_label(key, {key}) == ""


KNOWN = KnownValues(Catalogue(default=(a_type("m5.large"),)))
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"rack": "1"}}}
ARCH = "kubernetes.io/arch"
MISSPELT = "kubernetes.io/arc"


def document(obj: dict[str, Any]) -> Document:
    return Document("a.yaml", 0, obj)


def found_in(obj: dict[str, Any], *others: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    findings = label_findings(document(obj), KNOWN, provided_labels([document(other) for other in others]))
    return [(found.severity.value, found.code.value, found.field, found.suggestion) for found in findings]


def node_labels_demand(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def affinity(kind: str, terms: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {f"{kind}DuringSchedulingIgnoredDuringExecution": terms}}}


REQUIRED = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
PREFERRED = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
WRONG = {"matchExpressions": [node_labels_demand("own", "x"), node_labels_demand(MISSPELT, "amd64")]}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"nodeSelector": {MISSPELT: "amd64"}}, f"spec.nodeSelector[{MISSPELT}]"),
        (affinity("required", {"nodeSelectorTerms": [{}, WRONG]}), f"{REQUIRED}[1].matchExpressions[1].key"),
        (
            affinity("preferred", [{}, {"weight": 1, "preference": WRONG}]),
            f"{PREFERRED}[1].preference.matchExpressions[1].key",
        ),
        (
            {"topologySpreadConstraints": [{}, {"topologyKey": MISSPELT}]},
            "spec.topologySpreadConstraints[1].topologyKey",
        ),
        *(
            (
                {
                    "affinity": {
                        kind: {"requiredDuringSchedulingIgnoredDuringExecution": [{}, {"topologyKey": MISSPELT}]}
                    }
                },
                f"spec.affinity.{kind}.requiredDuringSchedulingIgnoredDuringExecution[1].topologyKey",
            )
            for kind in ("podAffinity", "podAntiAffinity")
        ),
    ],
)
def test_a_misspelt_key_is_a_warning_in_every_place_of_a_pod(spec: dict[str, Any], field: str) -> None:
    assert found_in({**POD, "spec": spec}) == [("warning", "NoEffect", field, ARCH)]
    inner = changed(DEPLOYMENT, TEMPLATE, spec)
    assert found_in(inner) == [("warning", "NoEffect", field.replace("spec.", f"{TEMPLATE}.", 1), ARCH)]


@pytest.mark.parametrize(
    ("key", "value", "code", "suggestion"),
    [
        ("arch", "arm64", "NoEffect", ARCH),
        ("arch", "own", None, ""),
        ("instance-type", "m5.large", "NoEffect", labels.INSTANCE_TYPE),
        ("karpenter.sh/provisioner-name", "general", "OldVersion", labels.NODEPOOL),
        ("example.com/arc", "amd64", None, ""),
        ("rack", "1", None, ""),
        (ARCH, "amd64", None, ""),
        ("beta.kubernetes.io/arch", "amd64", None, ""),
    ],
)
def test_a_short_key_is_meant_only_with_a_value_that_nodes_have(
    key: str, value: str, code: str | None, suggestion: str
) -> None:
    found = found_in({**POD, "spec": {"nodeSelector": {key: value}}})
    field = f"spec.nodeSelector[{key}]" if "/" in key else f"spec.nodeSelector.{key}"
    assert found == ([] if code is None else [("warning", code, field, suggestion)])


def test_values_that_no_node_has_are_warnings_at_the_value_or_at_the_selectors_key() -> None:
    assert found_in({**POD, "spec": {"nodeSelector": {ARCH: "x86_64"}}}) == [
        ("warning", "MatchesNothing", f"spec.nodeSelector[{ARCH}]", "amd64")
    ]
    spec = affinity("required", {"nodeSelectorTerms": [{"matchExpressions": [node_labels_demand(ARCH, "x86_64")]}]})
    assert found_in({**POD, "spec": spec}) == [
        ("warning", "MatchesNothing", f"{REQUIRED}[0].matchExpressions[0].values[0]", "amd64")
    ]


def test_a_node_pool_is_asked_for_its_keys_alone() -> None:
    requirements = [node_labels_demand("own", "x"), node_labels_demand(MISSPELT, "zzz")]
    pool = changed(NODE_POOL, "spec.template.spec.requirements", requirements)
    assert found_in(pool) == [("warning", "NoEffect", "spec.template.spec.requirements[1].key", ARCH)]
    assert found_in({**pool, "kind": "NodeClaim"}) == []
    assert found_in({**pool, "apiVersion": "karpenter.sh/v1beta1"}) == []
    assert found_in({**pool, "apiVersion": "example.com/v1"}) == []


def test_keys_that_nodes_or_node_pools_of_the_input_have_are_right() -> None:
    pool = changed(NODE_POOL, "spec.template.metadata.labels", {"kubernetes.io/arc": "a"})
    pool = changed(pool, "spec.template.spec.requirements", [node_labels_demand("kubernetes.io/oss", "b")])
    assert provided_labels([document(NODE), document(pool), document(DEPLOYMENT)]) == {
        "rack",
        "kubernetes.io/arc",
        "kubernetes.io/oss",
    }
    asked = {**POD, "spec": {"nodeSelector": {"kubernetes.io/arc": "a", "kubernetes.io/oss": "b"}}}
    assert len(found_in(asked)) == 2
    assert found_in(asked, pool) == []


# NodePools that launch nothing, and limits that stop nothing.


FAMILY = "karpenter.k8s.aws/instance-family"
CATALOGUE = Catalogue(
    default=(
        a_type("m5.large", **{FAMILY: "m5"}),
        a_type("c5.large", **{FAMILY: "c5"}),
        a_type("p3.large", extra={"nvidia.com/gpu": "1"}, **{FAMILY: "p3"}),
    )
)
REQUIREMENTS = "spec.template.spec.requirements"


def demand(key: str, operator: str, *values: str, **more: int) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values), **more}


def emptied(*requirements: dict[str, Any], **changes: Any) -> list[tuple[str, str]]:
    pool = {**changed(NODE_POOL, REQUIREMENTS, list(requirements)), **changes}
    findings = list(empty_pools(Document("a.yaml", 0, pool), CATALOGUE))
    assert all((found.severity, found.code) == ("error", "MatchesNothing") for found in findings)
    return [(found.field.removeprefix(REQUIREMENTS), found.message) for found in findings]


def test_the_requirement_that_leaves_nothing_is_named_with_what_was_left_before_it() -> None:
    first = demand(FAMILY, "In", "m5", "c5")
    assert emptied(first, demand(labels.ARCH, "In", "arm64")) == [
        (
            "[1]",
            (
                "no instance type that the requirements before it allow meets "
                "kubernetes.io/arch In [arm64]: the NodePool launches nothing"
            ),
        )
    ]
    assert emptied(demand(labels.ARCH, "In", "arm64"), first) == [
        ("[0]", "no type on offer meets kubernetes.io/arch In [arm64]: the NodePool launches nothing")
    ]
    assert emptied(first, demand(FAMILY, "DoesNotExist")) != []
    assert emptied(first) == emptied() == []


@pytest.mark.parametrize(("wanted", "is_missing"), [(1, False), (2, False), (3, True)])
def test_a_number_of_values_that_is_not_left_is_named(wanted: int, is_missing: bool) -> None:
    found = emptied(demand(FAMILY, "In", "m5", "c5"), demand(labels.INSTANCE_TYPE, "Exists", minValues=wanted))
    text = f"its requirements leave 2 values of {labels.INSTANCE_TYPE}: the NodePool launches nothing"
    assert found == ([("[1].minValues", text)] if is_missing else [])


@pytest.mark.parametrize(
    "requirement",
    [
        demand(labels.ZONE_ID, "In", "use1-az1"),
        demand(labels.RESERVATION_ID, "In", "cr-1"),
        demand(labels.CAPACITY_TYPE, "In", "reserved"),
        demand(labels.OS, "In", "windows"),
    ],
)
def test_what_the_account_decides_is_not_judged(requirement: dict[str, Any]) -> None:
    assert emptied(requirement, demand(labels.ARCH, "In", "arm64")) == []


def test_a_class_with_types_of_its_own_decides_which_systems_they_run() -> None:
    """Without it, the class' image may be of any system."""
    wanted = [demand(labels.OS, "In", "windows"), demand(labels.ARCH, "In", "arm64")]
    document = Document("a.yaml", 0, changed(NODE_POOL, REQUIREMENTS, wanted))
    assert list(empty_pools(document, CATALOGUE)) == []
    own = Catalogue(default=CATALOGUE.default, by_node_class={"default": CATALOGUE.default})
    assert [found.field for found in empty_pools(document, own)] == [f"{REQUIREMENTS}[0]"]


def test_a_class_that_reserves_more_than_any_type_has_is_named() -> None:
    document = Document("a.yaml", 0, changed(NODE_POOL, REQUIREMENTS, [demand(labels.ARCH, "In", "amd64")]))
    small = tuple(msgspec.structs.replace(kind, overhead={"memory": 2**60}) for kind in CATALOGUE.default)
    (finding,) = empty_pools(document, Catalogue(default=small))
    assert finding.field == "spec.template.spec.nodeClassRef.name"
    assert "reserves more" in finding.message


def test_a_requirement_without_values_is_named_without_any() -> None:
    ((field, message),) = emptied(demand(FAMILY, "DoesNotExist"))
    assert (field, message) == ("[0]", f"no type on offer meets {FAMILY} DoesNotExist: the NodePool launches nothing")


@pytest.mark.parametrize(
    "change",
    [{"kind": "NodeClaim"}, {"apiVersion": "karpenter.sh/v1beta1"}, {"apiVersion": "example.com/v1"}, {"spec": 7}],
)
def test_what_cannot_be_read_as_a_node_pool_is_not_judged(change: dict[str, Any]) -> None:
    assert emptied(demand(labels.ARCH, "In", "arm64"), **change) == []


@pytest.mark.parametrize(
    ("name", "is_idle", "meant"),
    [
        ("cpu", False, ""),
        ("memory", False, ""),
        ("nodes", False, ""),
        ("ephemeral-storage", False, ""),
        ("nvidia.com/gpu", False, ""),
        ("gpu", True, "nvidia.com/gpu"),
        ("gpus", True, "nvidia.com/gpu"),
        ("vcpu", True, "cpu"),
        ("mem", True, "memory"),
        ("memry", True, "memory"),
        ("qqqq", True, ""),
        ("nvidia.com/gpus", True, "nvidia.com/gpu"),
        ("example.com/zz", False, ""),
    ],
)
def test_a_limit_on_what_no_type_has_stops_nothing(name: str, is_idle: bool, meant: str) -> None:
    pool = changed(NODE_POOL, "spec.limits", {name: "1"})
    field = f"spec.limits[{name}]" if "." in name else f"spec.limits.{name}"
    found = [
        (one.severity.value, one.code.value, one.field, one.suggestion)
        for one in idle_limits(Document("", 0, pool), CATALOGUE)
    ]
    assert found == ([("warning", "NoEffect", field, meant)] if is_idle else [])
    for other in ({"kind": "NodeClaim"}, {"apiVersion": "karpenter.sh/v1beta1"}, {"apiVersion": "example.com/v1"}):
        assert list(idle_limits(Document("", 0, {**pool, **other}), CATALOGUE)) == []
    assert list(idle_limits(Document("", 0, {**pool, "apiVersion": "example.com/v1"}), CATALOGUE)) == []


@pytest.mark.parametrize(
    ("lasting", "is_short"), [("1s", True), ("9m59s", True), ("10m", False), ("Never", False), ("1hr", False)]
)
def test_an_expiry_before_a_node_has_worked_is_warned_of(lasting: str, is_short: bool) -> None:
    pool = changed(NODE_POOL, "spec.template.spec.expireAfter", lasting)
    by_hand = {**NODE_POOL, "kind": "NodeClaim", "spec": {"expireAfter": lasting}}
    for obj, field in ((pool, "spec.template.spec.expireAfter"), (by_hand, "spec.expireAfter")):
        told = [(one.severity.value, one.code.value, one.field) for one in short_lives(Document("", 0, obj))]
        assert told == ([("warning", "NoEffect", field)] if is_short else [])
        assert list(short_lives(Document("", 0, {**obj, "apiVersion": "karpenter.sh/v1beta1"}))) == []


def test_a_family_without_a_listed_price_is_estimated_and_said_so() -> None:
    """The list of a region may be of last year, and AWS sells the family there."""
    requirement = {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m7i", "m8i"]}
    pool = changed(NODE_POOL, "spec.template.spec.requirements", [requirement])
    known = KnownValues(builtin_catalogue("eu-west-1"), "eu-west-1")
    (finding,) = unmatched_values(Document("", 0, pool), known)
    assert (finding.severity.value, finding.field) == ("warning", "spec.template.spec.requirements[0].values[1]")
    assert "estimated" in finding.message
    assert "2025-04-04" in finding.message
    assert "catalog fetch" in finding.message


def test_node_pools_that_disagree_about_a_group_are_told_which_amount_counts() -> None:
    pools = [changed(NODE_POOL, "metadata", {"name": name, "annotations": {labels.SHARED_LIMITS: text}})
             for name, text in (("a", "team:cpu=4,other:nodes=3"), ("b", "team:cpu=8"), ("c", "team:cpu=4"))]  # fmt: skip
    findings = list(disagreeing_limits([Document("", index, pool) for index, pool in enumerate(pools)]))
    assert [(finding.document.index, finding.severity.value, finding.field) for finding in findings] == [
        (1, "warning", f"metadata.annotations[{labels.SHARED_LIMITS}]")
    ]
    assert "cpu 4 only" in findings[0].message


# Values that no instance type has: an error where they leave nothing, and why they are none.


INSTANCE_CPU = "karpenter.k8s.aws/instance-cpu"
UNMATCHED_VALUES_KNOWN = KnownValues(
    Catalogue(
        default=(a_type("m5.large", **{INSTANCE_CPU: "2"}),),
        by_node_class={"other": (a_type("c5.xlarge", **{INSTANCE_CPU: "8"}),)},
    )
)
POOL = "spec.template.spec.requirements"


def unmatched_values_found_in(
    obj: dict[str, Any], path: str, *requirements: dict[str, Any]
) -> list[tuple[str, str, str]]:
    findings = unmatched_values(Document("a.yaml", 0, changed(obj, path, list(requirements))), UNMATCHED_VALUES_KNOWN)
    return [(finding.severity.value, finding.field.removeprefix(path), finding.text) for finding in findings]


def one(key: str, *values: object, operator: str = "In") -> list[tuple[str, str, str]]:
    return unmatched_values_found_in(NODE_POOL, POOL, {"key": key, "operator": operator, "values": list(values)})


ELSEWHERE = "is in the catalogue; give another with --region or --catalog"


@pytest.mark.parametrize(
    ("key", "value", "severity", "text"),
    [
        (labels.ZONE, "us-east-1", "error", "'us-east-1' is a region, not one of its zones, such as us-east-1a"),
        (labels.ZONE, "use1-az1", "error", f"'use1-az1' is the id of a zone: its label is {labels.ZONE_ID}"),
        (labels.ZONE, "us-east-1z", "error", f"no instance type has {labels.ZONE} 'us-east-1z'"),
        (labels.ZONE, "eu-central-1a", "warning", f"no zone 'eu-central-1a' {ELSEWHERE}"),
        (labels.ZONE, "somewhere", "warning", f"no zone 'somewhere' {ELSEWHERE}"),
        (labels.ARCH, "x86_64", "error", f"no instance type has {labels.ARCH} 'x86_64' (did you mean 'amd64'?)"),
        (labels.ARCH, "aarch64", "error", f"no instance type has {labels.ARCH} 'aarch64' (did you mean 'arm64'?)"),
        (
            labels.CAPACITY_TYPE,
            "Spot",
            "error",
            f"no instance type has {labels.CAPACITY_TYPE} 'Spot' (did you mean 'spot'?)",
        ),
        (labels.INSTANCE_TYPE, "us-east-1", "error", f"no instance type has {labels.INSTANCE_TYPE} 'us-east-1'"),
        (labels.INSTANCE_TYPE, "use1-az1", "error", f"no instance type has {labels.INSTANCE_TYPE} 'use1-az1'"),
        (labels.INSTANCE_TYPE, "zzz", "error", f"no instance type has {labels.INSTANCE_TYPE} 'zzz'"),
        (
            labels.INSTANCE_TYPE,
            "m5.larg",
            "error",
            f"no instance type has {labels.INSTANCE_TYPE} 'm5.larg' (did you mean 'm5.large'?)",
        ),
    ],
)
def test_a_value_that_nothing_has_is_named_with_its_reason(key: str, value: str, severity: str, text: str) -> None:
    assert one(key, value) == [(severity, "[0].values[0]", text)]


@pytest.mark.parametrize(
    ("key", "values"),
    [
        (labels.ARCH, ("arm64", "amd64")),
        (labels.OS, ("windows",)),
        (labels.ZONE, ("us-east-1a",)),
        (labels.INSTANCE_TYPE, ("m5.large", "c5.xlarge")),
        ("example.com/team", ("zzz",)),
    ],
)
def test_values_that_exist_and_keys_of_the_users_own_are_no_finding(key: str, values: tuple[str, ...]) -> None:
    assert one(key, *values) == []
    assert one(key, "zzz", operator="NotIn") == []


def test_one_value_that_exists_or_may_exist_elsewhere_makes_the_others_warnings() -> None:
    assert [found[:2] for found in one(labels.INSTANCE_TYPE, "zzz", "m5.large")] == [("warning", "[0].values[0]")]
    assert [found[:2] for found in one(labels.ZONE, "us-east-1", "eu-central-1a")] == [
        ("warning", "[0].values[0]"),
        ("warning", "[0].values[1]"),
    ]
    assert [found[:2] for found in one(labels.ARCH, "zzz", "yyy")] == [
        ("error", "[0].values[0]"),
        ("error", "[0].values[1]"),
    ]


@pytest.mark.parametrize(
    ("operator", "bound", "is_met"),
    [("Gt", "8", False), ("Gt", "7", True), ("Lt", "2", False), ("Lt", "3", True), ("Gt", "many", True)],
)
def test_a_bound_that_no_number_meets_is_an_error(operator: str, bound: str, is_met: bool) -> None:
    text = f"no instance type has such a {INSTANCE_CPU}: they have 2 to 8"
    assert one(INSTANCE_CPU, bound, operator=operator) == ([] if is_met else [("error", "[0].values", text)])
    assert one("example.com/rank", bound, operator=operator) == []
    assert one(INSTANCE_CPU, bound, "1", operator=operator) == one(INSTANCE_CPU, operator=operator) == []
