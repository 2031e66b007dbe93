"""What EC2 refused or denied is not launched, and still prices what runs: those offerings alone, for those classes alone."""

from __future__ import annotations

import pytest

from adapters.observation.unavailable_offerings import (
    has_unavailable,
    without_denied,
    without_full_subnets,
    without_unavailable,
    without_zones,
)
from core import labels
from core.launch.denials.denial import LaunchDenial
from core.launch.denials.scope import DenialScope
from core.launch.denials.subnets import subnet_key
from core.model.catalogue import Catalogue, OfferingKey
from tests.builders import a_type

A, B = "us-east-1a", "us-east-1b"
TYPES = tuple(a_type(name, zones=(A, B), price=price) for name, price in (("small", 0.1), ("large", 0.4)))
PLAIN = Catalogue(default=TYPES)
BOTH = Catalogue(default=TYPES, by_node_class={"other": TYPES})
EVERY = frozenset(offering.key for found in TYPES for offering in found.offerings)


def closed(catalogue: Catalogue, node_class: str = "default") -> frozenset[OfferingKey]:
    """What a class cannot launch; nothing but the availability of offerings has changed."""
    types = catalogue.types_for(node_class)
    offerings = [offering for found in types for offering in found.offerings]
    assert [found.name for found in types] == [found.name for found in TYPES]
    assert [(o.key, o.price) for o in offerings] == [(o.key, o.price) for found in TYPES for o in found.offerings]
    return frozenset(offering.key for offering in offerings if not offering.available)


def of(**values: str) -> frozenset[OfferingKey]:
    return frozenset(key for key in EVERY if all(getattr(key, name) == value for name, value in values.items()))


@pytest.mark.parametrize("refused", [frozenset(), of(zone=A, instance_type="small"), EVERY, EVERY - of(zone=B)])
def test_refused_offerings_are_closed_for_all_classes(refused: frozenset[OfferingKey]) -> None:
    found = without_unavailable(BOTH, refused | {OfferingKey("unknown", A, labels.SPOT)})
    assert (closed(found), closed(found, "other")) == (refused, refused)
    assert has_unavailable(found) is bool(refused)
    assert without_unavailable(BOTH, frozenset()) is BOTH


@pytest.mark.parametrize("catalogue", [PLAIN, BOTH])
def test_a_denial_closes_its_scope_for_its_own_class(catalogue: Catalogue) -> None:
    """Two denials of one class add up; a class that has no types of its own gets those of all, less what is denied to it."""
    scopes = (DenialScope(zones=(A,), instance_types=("small",)), DenialScope(capacity_types=(labels.SPOT,)))
    denials = [LaunchDenial(node_class="other", code="x", scope=scope) for scope in scopes]
    found = without_denied(catalogue, denials)
    assert closed(found, "other") == of(zone=A, instance_type="small") | of(capacity_type=labels.SPOT)
    assert closed(found) == frozenset()
    assert has_unavailable(found)
    assert not has_unavailable(without_denied(catalogue, ()))


def test_a_zone_is_closed_for_a_class_all_of_whose_subnets_there_are_full() -> None:
    subnets = {"default": [("s-1", A), ("s-2", A), ("s-3", B)], "other": [("s-1", A), ("s-9", B)], "none": []}
    found = without_full_subnets(BOTH, subnets, {subnet_key("s-1"), subnet_key("s-3")})
    assert closed(found) == of(zone=B)
    assert closed(found, "other") == of(zone=A)
    assert sorted(found.by_node_class) == ["default", "other"]
    assert closed(found, "none") == frozenset()


@pytest.mark.parametrize("zones", [set(), {A}, {A, B}, {"elsewhere"}])
def test_zones_from_which_traffic_is_shifted_are_closed(zones: set[str]) -> None:
    found = without_zones(BOTH, zones)
    wanted = frozenset(key for key in EVERY if key.zone in zones)
    assert (closed(found), closed(found, "other")) == (wanted, wanted)


def test_a_type_that_only_a_class_of_its_own_has_is_closed_there() -> None:
    catalogue = Catalogue(default=(), by_node_class={"other": TYPES})
    assert closed(without_zones(catalogue, {A}), "other") == of(zone=A)
    assert has_unavailable(without_zones(catalogue, {A}))
