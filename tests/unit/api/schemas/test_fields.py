"""Single values as users write them: what is accepted, and what a refusal says."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from core.api.objects import JsonObject
from core.api.schemas import fields
from core.api.schemas.fields import ACCOUNT_ID, ApiModel, Metadata, Rule, allowed_values, examined, parts, wire_name
from core.api.status import Location
from tests.builders import NOW

# A model finds every fault of an object: of single fields, and of rules whose fields are valid.


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


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (fields.QUALIFIED_NAME, "team example.com/team a.b_c-d", "/team example.com/ -a"),
        (fields.LABEL_VALUE, "a a.b 1", "a/b -a"),
        (fields.DURATION, "90s 1h30m", "90 1d Never"),
        (fields.NILLABLE_DURATION, "90s Never", "never 90"),
        (fields.WINDOW, "8h 30m 1h30m 1h0s", "90s 1m1h"),
        (fields.NODES, "0 17 10% 100%", "101% -1 1.5 ten"),
        (fields.PRICE, "0 0.05", "-1 .5 1,5"),
        (fields.PRICE_ADJUSTMENT, "+0.01 -10% -100% +150%", "10% -101% 0.1"),
        (fields.ACCOUNT_ID, "123456789012", "1234 12345678901x"),
        (fields.AMI_ALIAS, "al2023@latest", "al2023 @latest"),
        (fields.VOLUME_SIZE, "1Gi 59000Gi 64T 64000G 58Ti", "0Gi 59001Gi 65T 100 1Mi"),
        (fields.SCHEDULE, "@daily", "daily *"),
    ],
)
def test_a_pattern_matches_what_its_meaning_says(pattern: str, good: str, bad: str) -> None:
    assert all(re.search(pattern, text) for text in good.split())
    assert not [text for text in bad.split() if re.search(pattern, text)]
    assert fields.MEANING[pattern]


def test_every_pattern_has_a_meaning() -> None:
    """Otherwise, the refusal of a value is a regular expression."""
    public = [value for name, value in vars(fields).items() if name.isupper() and not name.startswith("_")]
    patterns = {value for value in public if isinstance(value, str) and value.startswith("^")}
    assert patterns
    assert patterns <= set(fields.MEANING)


@pytest.mark.parametrize("value", [0, 2, "500m", "1.5Gi", "+2", "1e3", "0", 2**63 - 1])
def test_a_quantity_is_a_whole_number_or_text(value: Any) -> None:
    assert TypeAdapter(fields.Quantity).validate_python(value) == value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (True, "true is not a quantity"),
        (1.5, "1.5 is not a quantity"),
        ("1 Gi", "'1 Gi' is not a quantity"),
        (None, "null is not a quantity"),
        ({"a": (1, NOW)}, "is not a quantity"),
        (-1, "-1 is negative"),
        ("-1m", "'-1m' is negative"),
        (2**63, "write it as text"),
    ],
)
def test_another_value_is_refused_as_it_was_written(value: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        TypeAdapter(fields.Quantity).validate_python(value)


@pytest.mark.parametrize(("name", "is_valid"), [("a" * 63, True), ("a" * 64, False), ("a.b/" + "c" * 64, False)])
def test_a_name_has_at_most_63_characters_beside_its_domain(name: str, is_valid: bool) -> None:
    if is_valid:
        assert TypeAdapter(fields.QualifiedName).validate_python(name) == name
    else:
        with pytest.raises(ValidationError):
            TypeAdapter(fields.QualifiedName).validate_python(name)


@pytest.mark.parametrize(("length", "is_valid"), [(316, True), (317, False)])
def test_a_name_with_its_domain_is_as_long_as_karpenters_definitions_let_it_be(length: int, *, is_valid: bool) -> None:
    """One character less than Kubernetes allows: a manifest that Karpenter refuses is refused here, too."""
    domain = ".".join(["d" * 63] * 3 + ["d" * 61])
    name = f"{domain}/{'n' * 63}"[: length - 317 or None]
    assert len(name) == length
    if is_valid:
        assert TypeAdapter(fields.QualifiedName).validate_python(name) == name
    else:
        with pytest.raises(ValidationError, match="at most 316 characters"):
            TypeAdapter(fields.QualifiedName).validate_python(name)


@pytest.mark.parametrize(("number", "is_good"), [(-1, False), (0, True), (2**31 - 1, True), (2**31, False)])
def test_a_count_is_what_kubernetes_stores_in_32_bits(number: int, is_good: bool) -> None:
    adapter = TypeAdapter(fields.Count)
    if is_good:
        assert adapter.validate_python(number) == number
    else:
        with pytest.raises(ValidationError):
            adapter.validate_python(number)


# An object has a name, or a prefix from which the API server makes one.


@pytest.mark.parametrize(
    ("metadata", "faults"),
    [
        ({"name": "a.b-c"}, []),
        ({"generateName": "a-"}, []),
        ({}, [("name",)]),
        ({"name": ""}, [("name",)]),
        ({"name": "Upper"}, [("name",)]),
        ({"name": "a" * 254}, [("name",)]),
        ({"name": 7}, [("name",)]),
        ({"name": "a", "labels": {"b": 1}}, [("labels", "b")]),
        ({"name": "a", "annotations": []}, [("annotations",)]),
    ],
)
def test_faults_are_named_by_field(metadata: JsonObject, faults: list[Location]) -> None:
    assert [location for location, _ in examined(Metadata, metadata)[1]] == faults
