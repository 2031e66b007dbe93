"""Which fields of a selector term go together, by Karpenter's rules for EC2NodeClasses."""

from __future__ import annotations

from typing import Any

import pytest

from core.api.schemas.base import examined
from core.api.schemas.selector_terms import AmiTerm, SubnetTerm
from core.api.validation import problems
from tests.unit.api.objects import NODE_CLASS, changed

TAGS = {"tags": {"a": "b"}}
AMI = {"id": "ami-0123456789abcdef0"}
SUBNET, GROUP, RESERVATION = (
    {"id": f"{kind}-0123456789abcdef0"} for kind in ("subnet", "sg", "cr")
)  # fmt: skip
NAME, ALIAS, SSM = {"name": "n"}, {"alias": "al2023@latest"}, {"ssmParameter": "/a/b"}
OWNER, OPEN = {"ownerID": "111122223333"}, {"instanceMatchCriteria": "open"}


def faults(field: str, *terms: dict[str, Any]) -> list[str]:
    found = problems(changed(changed(NODE_CLASS, "spec.amiFamily", "AL2023"), f"spec.{field}", list(terms)))
    assert all(one.field.startswith(f"spec.{field}") for one in found)
    return sorted(one.field.removeprefix(f"spec.{field}") for one in found)


@pytest.mark.parametrize(
    ("term", "refused"),
    [
        (AMI, []),
        (TAGS | NAME, []),
        (TAGS | NAME | {"owner": "self"}, []),
        (SSM, []),
        (ALIAS, []),
        ({}, [""]),
        ({"owner": "self"}, [""]),
        ({"tags": {"a": ""}}, [".tags.a"]),
        ({"tags": {"": "b"}}, [".tags[]"]),
        *((AMI | other, [".id"]) for other in (TAGS, NAME, {"owner": "self"})),
        (AMI | ALIAS, [".id"]),
        *((ALIAS | other, [".alias"]) for other in (TAGS, NAME, {"owner": "self"})),
        (ALIAS | NAME | AMI, [".alias", ".id"]),
    ],
)
def test_an_image_is_named_in_one_way(term: dict[str, Any], refused: list[str]) -> None:
    assert faults("amiSelectorTerms", term) == [f"[0]{path}" for path in refused]


@pytest.mark.parametrize(
    ("field", "terms", "refused"),
    [
        ("subnetSelectorTerms", [SUBNET | TAGS], ["[0].id"]),
        ("subnetSelectorTerms", [SUBNET | TAGS, SUBNET | TAGS], ["[0].id", "[1].id"]),
        ("subnetSelectorTerms", [SUBNET | TAGS, SUBNET], []),
        ("subnetSelectorTerms", [SUBNET, TAGS], []),
        ("subnetSelectorTerms", [{}], ["[0]"]),
        ("securityGroupSelectorTerms", [GROUP | TAGS], ["[0].id"]),
        ("securityGroupSelectorTerms", [GROUP | NAME], ["[0].id", "[0].name"]),
        ("securityGroupSelectorTerms", [NAME | TAGS], ["[0].name"]),
        ("securityGroupSelectorTerms", [NAME | TAGS, NAME], []),
        ("capacityReservationSelectorTerms", [RESERVATION | TAGS], ["[0].id"]),
        ("capacityReservationSelectorTerms", [RESERVATION | OWNER], ["[0].id"]),
        ("capacityReservationSelectorTerms", [RESERVATION | OPEN], ["[0].id"]),
        ("capacityReservationSelectorTerms", [RESERVATION | OPEN, RESERVATION], []),
        ("capacityReservationSelectorTerms", [TAGS | OWNER | OPEN], []),
        ("capacityReservationSelectorTerms", [OWNER], ["[0]"]),
        ("capacityReservationSelectorTerms", [], []),
    ],
)
def test_a_list_of_which_every_term_mixes_an_id_with_something_else_is_refused(
    field: str, terms: list[dict[str, Any]], refused: list[str]
) -> None:
    """Karpenter's CEL asks `all`, not `any`: one clean term lets the others pass."""
    assert faults(field, *terms) == refused


def test_tags_need_a_key_and_a_value_each() -> None:
    assert [place for place, _ in examined(SubnetTerm, {"tags": {"a": "*", "b": ""}})[1]] == [("tags", "b")]
    assert ("tags", "a") in [place for place, _ in examined(AmiTerm, {"tags": {"a": ""}, "id": "ami-1"})[1]]
