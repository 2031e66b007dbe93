"""Fitting claims into quotas."""

from __future__ import annotations

from core import labels
from core.model.values.vcpu_quotas import STANDARD
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.quota_accounting import VCPU, RemainingQuotas
from core.scheduling.capacity.quota_fit import fit
from tests.builders import a_type
from tests.unit.scheduling.reading import context_of

TYPES = tuple(
    a_type(name, cpu=str(vcpus), price=0.05 * vcpus, capacity_types=(labels.ON_DEMAND,))
    for name, vcpus in (("m5.large", 2), ("m5.xlarge", 4), ("m5.4xlarge", 16), ("m5.24xlarge", 96), ("p3.2xlarge", 8))
)


def _claims(number: int) -> list[InFlightClaim]:
    context = context_of(types=TYPES)
    (template,) = context.templates
    return [
        InFlightClaim(index, template, template.offered, template.mask, context.axis.zero) for index in range(number)
    ]


def _names(claims: list[InFlightClaim]) -> list[tuple[str, ...]]:
    return [claim.template.types.names(claim.allowed) for claim in claims]


def test_nothing_changes_far_from_a_quota() -> None:
    """The choice of types is worth something."""
    claims = _claims(2)
    assert fit(claims, RemainingQuotas({STANDARD.on_demand: 192 * VCPU}))
    assert [len(names) for names in _names(claims)] == [5, 5]


def test_a_spent_quota_of_another_family_costs_only_its_types() -> None:
    """New accounts have no quota for accelerated families at all, and every claim of a wide NodePool names them."""
    claims = _claims(1)
    assert fit(claims, RemainingQuotas({"L-417A185B": 0}))
    assert _names(claims) == [("m5.24xlarge", "m5.4xlarge", "m5.large", "m5.xlarge")]


def test_the_loosest_bound_that_fits_is_kept() -> None:
    """Two claims of 2 vCPUs within 40: types of up to 16 fit, of 96 do not."""
    claims = _claims(2)
    assert fit(claims, RemainingQuotas({STANDARD.on_demand: 40 * VCPU}))
    assert _names(claims) == [("m5.4xlarge", "m5.large", "m5.xlarge", "p3.2xlarge")] * 2
    claims = _claims(2)
    assert fit(claims, RemainingQuotas({STANDARD.on_demand: 5 * VCPU}))
    assert _names(claims) == [("m5.large", "p3.2xlarge")] * 2


def test_claims_that_cannot_fit_stay_as_they_are() -> None:
    """There must be another plan."""
    claims = _claims(3)
    assert not fit(claims, RemainingQuotas({STANDARD.on_demand: 5 * VCPU}))
    assert [len(names) for names in _names(claims)] == [5, 5, 5]
