"""A model finds every fault of an object: of single fields, and of rules whose fields are valid."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import Field

from core.api.objects import JsonObject
from core.api.problem import Location
from core.api.schemas.base import ApiModel, Rule, allowed_values, examined, parts, wire_name
from core.api.schemas.fields import ACCOUNT_ID


def _too_many(part: JsonObject) -> list[Location]:
    return [("most",)] if part.get("least", 0) > part.get("most", 9) else []


class Part(ApiModel):
    """A part."""

    least: Annotated[int, Field(ge=0, le=9)] = 0
    most: int = 9
    mode: Literal["fast", "slow"] | None = None

    rules: ClassVar[tuple[Rule, ...]] = (Rule(("least", "most"), _too_many, "is less than least"),)


class Whole(ApiModel):
    """An object of parts."""

    name: Annotated[str, Field(min_length=1, max_length=5)]
    only_part: Part | None = None
    parts_: Annotated[list[Part], Field(alias="parts", max_length=2)] = []


VALID: JsonObject = {"name": "a"}


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("provider_id", "providerID"),
        ("cluster_dns", "clusterDNS"),
        ("cpu_cfs_quota", "cpuCFSQuota"),
        ("taints", "taints"),
    ],
)
def test_names_have_kubernetes_spelling(name: str, written: str) -> None:
    assert wire_name(name) == written


@pytest.mark.parametrize(
    ("change", "location", "message"),
    [
        ({"name": None}, ("name",), "must be text, not null"),
        ({"name": ""}, ("name",), "must not be empty"),
        ({"name": "abcdef"}, ("name",), "must have at most 5 characters"),
        ({"onlyPart": []}, ("onlyPart",), "must be an object, not a list"),
        ({"onlyPart": {"least": True}}, ("onlyPart", "least"), "must be a whole number, not true or false"),
        ({"onlyPart": {"least": "3"}}, ("onlyPart", "least"), "must be a whole number, not text"),
        ({"onlyPart": {"least": 10}}, ("onlyPart", "least"), "must be at most 9"),
        ({"onlyPart": {"least": -1}}, ("onlyPart", "least"), "must be at least 0"),
        ({"onlyPart": {"mode": "quick"}}, ("onlyPart", "mode"), "'quick' is not one of 'fast' or 'slow'"),
        ({"parts": [{}, {"least": 5, "most": 4}]}, ("parts", 1, "most"), "is less than least"),
        ({"parts": [{}, {}, {}]}, ("parts",), "must have at most 2 entries"),
    ],
)
def test_a_fault_has_its_place_and_says_what_is_expected(change: JsonObject, location: Location, message: str) -> None:
    assert examined(Whole, VALID | change)[1] == [(location, message)]


def test_a_missing_field_is_named() -> None:
    assert examined(Whole, {}) == (None, [(("name",), "is required")])


def test_a_rule_is_not_asked_about_a_field_that_is_invalid_itself() -> None:
    """It would fail on a value of another type, or say the same twice."""
    found = examined(Whole, VALID | {"onlyPart": {"least": "x", "most": 1}})[1]
    assert [location for location, _ in found] == [("onlyPart", "least")]


def test_unknown_fields_are_ignored_and_a_valid_object_is_read() -> None:
    read, faults = examined(Whole, VALID | {"more": 1, "onlyPart": {"least": 2}})
    assert faults == []
    assert read is not None
    assert read.only_part == Part(least=2)


def test_parts_are_found_alone_and_in_lists() -> None:
    assert parts(Whole) == (("onlyPart", Part), ("parts", Part))


@pytest.mark.parametrize(
    ("location", "values"),
    [
        (("onlyPart", "mode"), ("fast", "slow")),
        (("parts", 0, "mode"), ("fast", "slow")),
        (("name",), ()),
        (("missing", "mode"), ()),
    ],
)
def test_closed_lists_of_values_are_found_by_place(location: Any, values: tuple[str, ...]) -> None:
    assert allowed_values(Whole, location) == values


def test_a_part_of_another_type_blocks_its_own_rules_alone() -> None:
    """Its neighbours are judged all the same: all mistakes are shown at once."""
    broken = {"least": 5, "most": 4}
    faults = {
        "other part": VALID | {"onlyPart": 7, "parts": [broken]},
        "other entry": VALID | {"parts": ["x", broken]},
        "other field": VALID | {"name": "abcdef", "onlyPart": broken},
        "no object": 5,
    }
    found = {name: [location for location, _ in examined(Whole, raw)[1]] for name, raw in faults.items()}
    assert found == {
        "other part": [("onlyPart",), ("parts", 0, "most")],
        "other entry": [("parts", 0), ("parts", 1, "most")],
        "other field": [("name",), ("onlyPart", "most")],
        "no object": [()],
    }


def test_a_list_of_another_type_is_not_read_as_one() -> None:
    assert [location for location, _ in examined(Whole, VALID | {"parts": {"least": 5, "most": 4}})[1]] == [("parts",)]
    assert examined(Whole, VALID | {"onlyPart": None})[1] == []


def test_values_of_a_field_deep_inside_are_found_by_its_written_name() -> None:
    """As it stands in the object, and no field of another part that has the same name."""

    class Outer(ApiModel):
        """Parts in a part."""

        mode: str = ""
        inner: Whole | None = None

    assert allowed_values(Outer, ("inner", "onlyPart", "mode")) == ("fast", "slow")
    assert allowed_values(Outer, ("mode",)) == ()
    assert allowed_values(Outer, ("inner", "only_part")) == ()
    assert allowed_values(Outer, ("inner", "nothing")) == ()


def test_a_pattern_is_explained_and_what_has_no_words_of_ours_keeps_pydantics() -> None:
    class Named(ApiModel):
        """Fields whose refusals have other words."""

        account: Annotated[str, Field(pattern=ACCOUNT_ID)] = "123456789012"
        share: Annotated[float, Field(gt=0)] = 0.5

    assert examined(Named, {"account": "12", "share": 0.0})[1] == [
        (("account",), "'12' is not an account id of twelve digits"),
        (("share",), "Input should be greater than 0"),
    ]
