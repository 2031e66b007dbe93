"""An object with an unreadable field is kept without the field, so that its node does not look empty."""

from __future__ import annotations

import copy

import msgspec
import pytest

from core.manifests.partial import PARTS_MAX, explained, located, readable_rest
from core.manifests.wire.pod import WirePod, WirePodSpec


def test_an_unreadable_field_is_dropped_and_the_object_kept() -> None:
    found = readable_rest(WirePod, {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": "many"}})
    assert isinstance(found, WirePod)
    assert (found.metadata.name, found.node_name) == ("p", "n")
    assert found.unreadable.startswith("spec.containers: ")


@pytest.mark.parametrize("obj", [[], {}, {"metadata": "p"}, {"metadata": {"name": 3}}])
def test_an_object_without_a_name_is_dropped(obj: object) -> None:
    assert readable_rest(WirePod, obj) is None


def test_the_place_is_given_in_the_users_notation() -> None:
    assert explained("Expected `str`, got `int` - at `$.spec.tolerations[...].key`") == (
        "must be text, not a number",
        "spec.tolerations.*.key",
    )
    assert explained("Expected `str` - at `key` in `$.metadata.labels`") == ("a key: must be text", "metadata.labels")


def test_what_is_missing_or_of_another_type_is_said_without_names_of_types() -> None:
    assert explained("Object missing required field `topologyKey` - at `$.spec`") == ("is required", "spec.topologyKey")
    assert explained("Object missing required field `name`") == ("is required", "name")
    assert explained("Expected `datetime | null`, got `int` - at `$.t`") == ("must be a time, not a number", "t")
    assert explained("Expected `int | null`, got `float` - at `$.y`") == ("must be a whole number", "y")
    assert explained("Expected `int | str`, got `float` - at `$.y`") == ("must be a whole number or text", "y")
    assert explained("Expected `str`, got `null` - at `$.y`") == ("must be text, not null", "y")
    assert explained("Expected `int | str`, got `array` - at `$.z`") == ("must be a number or text, not a list", "z")


def test_the_entry_at_fault_is_named() -> None:
    obj = {"spec": {"tolerations": [{"labels": {"team": "a", "example.com/gen": 5}}], "selector": {"gen": True}}}
    assert located("spec.selector.*", "must be text, not true or false", obj) == "spec.selector.gen"
    place = "spec.tolerations[0].labels"
    assert located(f"{place}.*", "must be text, not a number", obj) == f"{place}[example.com/gen]"
    assert located(f"{place}.*", "must be text, not a list", obj) == f"{place}.*"
    assert located("spec.selector", "must be a list, not an object", obj) == "spec.selector"


def test_a_fault_at_the_top_drops_that_field_alone() -> None:
    found = readable_rest(WirePod, {"metadata": {"name": "p"}, "spec": 5, "status": {"phase": "Running"}})
    assert isinstance(found, WirePod)
    assert (found.metadata.name, found.status.phase, found.unreadable) == (
        "p",
        "Running",
        "spec: must be an object, not a number",
    )


def test_the_first_of_several_faults_is_named() -> None:
    found = readable_rest(
        WirePod, {"metadata": {"name": "p"}, "spec": {"nodeName": 5, "containers": "many"}, "status": 7}
    )
    assert isinstance(found, WirePod)
    assert found.unreadable in {
        "spec.nodeName: must be text, not a number",
        "spec.containers: must be a list, not text",
    }
    assert found.spec.containers == ()


def test_the_object_that_could_not_be_read_stays_as_it_is() -> None:
    """It is shown to its author, and read again by the next run."""
    obj = {"metadata": {"name": "p"}, "spec": {"nodeName": 5, "containers": []}, "status": 7}
    before = copy.deepcopy(obj)
    assert readable_rest(WirePod, obj) is not None
    assert obj == before


def test_an_object_with_very_many_faults_is_none_of_its_kind() -> None:
    """Sixteen may be left out; beyond, nothing says that it is a pod at all."""

    def readable(faults: int) -> bool:
        names = [field.encode_name for field in msgspec.structs.fields(WirePodSpec)][:faults]
        return readable_rest(WirePod, {"metadata": {"name": "p"}, "spec": dict.fromkeys(names, 1.5)}) is not None

    assert readable(PARTS_MAX - 1)
    assert not readable(PARTS_MAX)
