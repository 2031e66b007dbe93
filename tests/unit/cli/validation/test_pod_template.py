"""What the API server refuses in a pod template is an error; what it accepts but hardly means is a warning."""

from __future__ import annotations

from typing import Any

import pytest

from cli.manifests.document import Document
from cli.validation.pod_template import template_findings
from tests.unit.api.objects import changed
from tests.unit.cli.validation.test_validate_mistakes import DEPLOYMENT, SPREAD, TEMPLATE, ZONE

RESOURCES = f"{TEMPLATE}.containers.0.resources"
MEMORY = f"{TEMPLATE}.containers[0].resources"
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"


def found_in(obj: dict[str, Any]) -> list[tuple[str, str, str]]:
    findings = list(template_findings(Document("a.yaml", 0, obj)))
    codes = {"error": "InvalidValue", "warning": "NoEffect"}
    assert all(finding.code in (codes[finding.severity], "OldVersion") for finding in findings)
    return [(finding.severity.value, finding.field, finding.text) for finding in findings]


def pod(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", **metadata}, "spec": spec}


@pytest.mark.parametrize(
    ("resource", "amount", "odd"),
    [
        ("memory", "512m", "512m is thousandths of a byte; 512Mi is mebibytes"),
        ("ephemeral-storage", "1500m", "1500m is thousandths of a byte; 1500Mi is mebibytes"),
        ("memory", 512, "512 is bytes; 512Mi is mebibytes"),
        ("memory", "1", "1 is bytes; 1Mi is mebibytes"),
        ("ephemeral-storage", str((1 << 20) - 1), "1048575 is bytes; 1048575Mi is mebibytes"),
        ("cpu", "1Gi", "1Gi is a number of cores, not of bytes"),
        ("cpu", "1.5G", "1.5G is a number of cores, not of bytes"),
        ("memory", str(1 << 20), ""),
        ("memory", "0", ""),
        ("memory", "512Mi", ""),
        ("memory", "1e3", ""),
        ("cpu", "500m", ""),
        ("cpu", "512", ""),
        ("example.com/slots", "512", ""),
        ("example.com/slots", "512m", ""),
    ],
)
@pytest.mark.parametrize("kind", ["requests", "limits"])
def test_an_amount_that_is_hardly_meant_is_a_warning(kind: str, resource: str, amount: object, odd: str) -> None:
    found = found_in(changed(DEPLOYMENT, RESOURCES, {kind: {resource: amount}}))
    field = f"{MEMORY}.{kind}.{resource}" if "." not in resource else f"{MEMORY}.{kind}[{resource}]"
    assert found == ([("warning", field, odd)] if odd else [])


@pytest.mark.parametrize(
    ("request_", "limit", "is_more"),
    [
        ("2", "1", True),
        ("1001m", 1, True),
        ("1", "1000m", False),
        ("1", "2", False),
        ("1", None, False),
        ("x", "1", False),
        ("x", "0", False),
    ],
)
def test_a_request_above_its_limit_is_refused(request_: str, limit: object, is_more: bool) -> None:
    limits = {} if limit is None else {"limits": {"cpu": limit}}
    found = found_in(changed(DEPLOYMENT, RESOURCES, {"requests": {"cpu": request_}, **limits}))
    assert found == (
        [("error", f"{MEMORY}.requests.cpu", f"{request_} is more than the limit of {limit}")] if is_more else []
    )


def test_each_container_is_looked_at_and_each_has_its_place() -> None:
    odd = {"resources": {"requests": {"memory": 1}}}
    found = found_in(pod({"containers": [{}, odd], "initContainers": [odd]}))
    assert [field for _, field, _ in found] == [
        "spec.initContainers[0].resources.requests.memory",
        "spec.containers[1].resources.requests.memory",
    ]
    assert found_in(pod({"containers": []})) == [("error", "spec.containers", "is missing: a pod needs a container")]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"])
def test_a_selector_must_match_the_labels_of_the_template(kind: str) -> None:
    workload = changed({**DEPLOYMENT, "kind": kind}, "spec.selector.matchLabels", {"app": "shop", "tier": "a"})
    message = "does not match the labels of the template: they have"
    assert found_in(workload) == [
        ("error", "spec.selector.matchLabels.app", f"{message} app=web"),
        ("error", "spec.selector.matchLabels.tier", f"{message} no tier"),
    ]
    assert found_in({**workload, "kind": "Job", "apiVersion": "batch/v1"}) == []
    assert found_in({**workload, "apiVersion": "example.com/v1"}) == []


@pytest.mark.parametrize(
    ("toleration", "is_refused"),
    [
        ({"key": "a", "operator": "Exists", "value": "b"}, True),
        ({"key": "a", "operator": "Exists", "value": ""}, False),
        ({"key": "a", "operator": "Exists"}, False),
        ({"key": "a", "operator": "Equal", "value": "b"}, False),
        ({"key": "a", "value": "b"}, False),
    ],
)
def test_a_toleration_that_exists_takes_no_value(toleration: dict[str, str], is_refused: bool) -> None:
    found = found_in(pod({"containers": [{}], "tolerations": [{}, toleration]}))
    assert found == ([("error", "spec.tolerations[1].value", "operator Exists takes no value")] if is_refused else [])


@pytest.mark.parametrize(
    ("selector", "field", "message"),
    [
        ({}, "", "selects no pods, so the constraint spreads nothing"),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, None, None),
        ({"matchLabels": {"app": "web"}}, None, None),
        (
            {"matchLabels": {"app": "shop"}},
            ".matchLabels.app",
            "does not select the pod itself, which has app=web: its own place is not counted",
        ),
        (
            {"matchLabels": {"tier": "a"}},
            ".matchLabels.tier",
            "does not select the pod itself, which has no tier: its own place is not counted",
        ),
    ],
)
def test_a_spread_that_spreads_nothing_is_a_warning(
    selector: dict[str, Any], field: str | None, message: str | None
) -> None:
    spread = {**SPREAD, "topologyKey": ZONE, "labelSelector": selector}
    found = found_in(changed(DEPLOYMENT, f"{TEMPLATE}.topologySpreadConstraints", [spread]))
    at = f"{TEMPLATE}.topologySpreadConstraints[0].labelSelector"
    assert found == ([] if field is None else [("warning", f"{at}{field}", message)])


def test_annotations_have_an_effect_on_pods_alone_and_under_their_present_name() -> None:
    above = changed(DEPLOYMENT, "metadata.annotations", {DO_NOT_DISRUPT: "true"})
    message = "protects no pod here: pods take their annotations from spec.template.metadata.annotations"
    assert found_in(above) == [("warning", f"metadata.annotations[{DO_NOT_DISRUPT}]", message)]
    assert found_in(changed(above, "spec.template.metadata.annotations", {DO_NOT_DISRUPT: "true"})) == []
    assert found_in(pod({"containers": [{}]}, annotations={DO_NOT_DISRUPT: "true"})) == []
    for former in ("karpenter.sh/do-not-evict", "karpenter.sh/do-not-consolidate"):
        assert found_in(pod({"containers": [{}]}, annotations={former: "true"})) == [
            (
                "warning",
                f"metadata.annotations[{former}]",
                f"is of an older version, and is ignored (did you mean '{DO_NOT_DISRUPT}'?)",
            )
        ]
