"""Which offerings a denial covers."""

from __future__ import annotations

from core.launch.denials.scope import EVERYTHING, TYPES_MAX, DenialScope
from core.model.catalogue import OfferingKey

SPOT_A = OfferingKey("m5.large", "a", "spot")
SPOT_B = OfferingKey("m5.large", "b", "spot")
ON_DEMAND_A = OfferingKey("m5.large", "a", "on-demand")
GPU_A = OfferingKey("p5.48xlarge", "a", "on-demand")


def test_only_the_denied_offerings_are_in_scope() -> None:
    """Otherwise, pods for which other offerings would do wait without need."""
    scope = DenialScope.of([SPOT_A])
    assert scope.covers(SPOT_A)
    assert not any(scope.covers(key) for key in (SPOT_B, ON_DEMAND_A, GPU_A))


def test_a_widened_scope_has_both() -> None:
    scope = DenialScope.of([SPOT_A]).widened(DenialScope.of([SPOT_B]))
    assert scope.covers(SPOT_A)
    assert scope.covers(SPOT_B)
    assert not scope.covers(ON_DEMAND_A)
    assert EVERYTHING.widened(scope) == EVERYTHING


def test_a_denial_of_very_many_types_is_not_about_the_types() -> None:
    """Each request names up to 60 types: one after the other, all types would be denied."""
    many = [OfferingKey(f"m{n}.large", "a", "spot") for n in range(TYPES_MAX + 1)]
    assert DenialScope.of(many).covers(SPOT_A)
    halves = DenialScope.of(many[:TYPES_MAX]).widened(DenialScope.of(many[-1:]))
    assert halves.covers(SPOT_A)
    assert not halves.covers(ON_DEMAND_A)


def test_a_quota_is_shared_by_the_types_of_its_families() -> None:
    scope = DenialScope.of_quotas([SPOT_A])
    assert scope.covers(OfferingKey("c7g.16xlarge", "b", "spot"))
    assert not scope.covers(ON_DEMAND_A)
    assert not DenialScope.of_quotas([ON_DEMAND_A]).covers(GPU_A)


def test_a_capacity_type_is_denied_in_every_zone() -> None:
    scope = DenialScope.of_capacity_types([SPOT_A])
    assert scope.covers(OfferingKey("p5.48xlarge", "c", "spot"))
    assert not scope.covers(ON_DEMAND_A)


def test_the_most_types_that_a_scope_may_name_are_named() -> None:
    """A scope without types closes every type of the zone."""
    most = [OfferingKey(f"c{n}.large", "a", "spot") for n in range(TYPES_MAX)]
    for scope in (DenialScope.of(most), DenialScope.of(most[1:]).widened(DenialScope.of(most[:1]))):
        assert scope.covers(most[0])
        assert not scope.covers(SPOT_A)


def test_a_scope_without_types_stays_so_when_it_is_widened() -> None:
    quota = DenialScope.of_quotas([SPOT_A])
    assert DenialScope.of([SPOT_A]).widened(quota) == quota.widened(DenialScope.of([SPOT_A]))
    assert quota.widened(DenialScope.of([SPOT_A])).instance_types is None


def test_a_wider_scope_names_what_both_name_of_every_kind() -> None:
    one = DenialScope(("spot",), ("a",), ("m5.large",), ("standard",))
    other = DenialScope(("on-demand",), ("b",), ("c5.large", "m5.large"), ("p",))
    assert one.widened(other) == DenialScope(
        ("on-demand", "spot"), ("a", "b"), ("c5.large", "m5.large"), ("p", "standard")
    )
    assert one.widened(DenialScope(capacity_types=("spot",))) == DenialScope(capacity_types=("spot",))


def test_beyond_the_most_types_none_is_named() -> None:
    """Else a row grows with each request, and one denial after the other closes the whole catalogue type by type."""
    many = [OfferingKey(f"m{n}.large", "a", "spot") for n in range(TYPES_MAX + 1)]
    assert DenialScope.of(many).instance_types is None
    assert len(DenialScope.of(many[1:]).instance_types or ()) == TYPES_MAX
    assert DenialScope.of(many[1:]).widened(DenialScope.of(many[:1])).instance_types is None
