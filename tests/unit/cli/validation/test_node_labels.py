"""Keys that nearly have the name of a node label, wherever a workload or a NodePool asks for one."""

from __future__ import annotations

from typing import Any

import pytest

from cli.manifests.document import Document
from cli.validation.node_labels import label_findings, provided_labels
from cli.validation.unmatched_values import KnownValues
from core import labels
from core.model.catalogue import Catalogue
from tests.builders import a_type
from tests.unit.api.objects import NODE_POOL, changed
from tests.unit.cli.validation.test_validate_mistakes import DEPLOYMENT, TEMPLATE

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


def demand(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def affinity(kind: str, terms: Any) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {f"{kind}DuringSchedulingIgnoredDuringExecution": terms}}}


REQUIRED = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
PREFERRED = "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
WRONG = {"matchExpressions": [demand("own", "x"), demand(MISSPELT, "amd64")]}


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
    spec = affinity("required", {"nodeSelectorTerms": [{"matchExpressions": [demand(ARCH, "x86_64")]}]})
    assert found_in({**POD, "spec": spec}) == [
        ("warning", "MatchesNothing", f"{REQUIRED}[0].matchExpressions[0].values[0]", "amd64")
    ]


def test_a_node_pool_is_asked_for_its_keys_alone() -> None:
    requirements = [demand("own", "x"), demand(MISSPELT, "zzz")]
    pool = changed(NODE_POOL, "spec.template.spec.requirements", requirements)
    assert found_in(pool) == [("warning", "NoEffect", "spec.template.spec.requirements[1].key", ARCH)]
    assert found_in({**pool, "kind": "NodeClaim"}) == []
    assert found_in({**pool, "apiVersion": "karpenter.sh/v1beta1"}) == []
    assert found_in({**pool, "apiVersion": "example.com/v1"}) == []


def test_keys_that_nodes_or_node_pools_of_the_input_have_are_right() -> None:
    pool = changed(NODE_POOL, "spec.template.metadata.labels", {"kubernetes.io/arc": "a"})
    pool = changed(pool, "spec.template.spec.requirements", [demand("kubernetes.io/oss", "b")])
    assert provided_labels([document(NODE), document(pool), document(DEPLOYMENT)]) == {
        "rack",
        "kubernetes.io/arc",
        "kubernetes.io/oss",
    }
    asked = {**POD, "spec": {"nodeSelector": {"kubernetes.io/arc": "a", "kubernetes.io/oss": "b"}}}
    assert len(found_in(asked)) == 2
    assert found_in(asked, pool) == []
