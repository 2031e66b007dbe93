"""An object with an unreadable field is kept without the field, so that its node does not look empty."""

from __future__ import annotations

import pytest

from core.manifests.partial import explained, readable_rest
from core.manifests.wire.pod import WirePod


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
        "Expected `str`, got `int`",
        "spec.tolerations.*.key",
    )
    assert explained("Expected `str` - at `key` in `$.metadata.labels`") == ("a key: Expected `str`", "metadata.labels")
