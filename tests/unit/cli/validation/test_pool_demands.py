"""NodePools that launch nothing, and limits that stop nothing."""

from __future__ import annotations

from typing import Any

import pytest

from cli.manifests.document import Document
from cli.validation.pool_demands import empty_pools, idle_limits
from core import labels
from core.model.catalogue import Catalogue
from tests.builders import a_type
from tests.unit.api.objects import NODE_POOL, changed

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
                "none of the 2 instance types that the requirements before it leave meets "
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
