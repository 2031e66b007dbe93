"""Commitments in the document of price terms."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from core.errors import InvalidInputError
from core.model.values.commitment import CommittedRate, ReservedInstances, SavingsPlan
from core.price_terms.document import read_terms

LARGE = {"name": "a", "instanceType": "m7i.large", "count": 1}
PLAN = {"name": "a", "dollarsPerHour": 1, "rates": [{"percent": 1}]}


def test_commitments_are_read_by_name() -> None:
    """The order in the document must not matter to a plan."""
    text = """{
      "reservedInstances": [
        {"name": "zonal", "instanceType": "m7i.large", "count": 10, "zone": "us-east-1a"},
        {"name": "gpu", "instanceType": "g5.xlarge", "count": 1, "sizeFlexible": false, "endsAt": "2027-03-01T00:00:00Z"}],
      "savingsPlans": [
        {"name": "compute", "dollarsPerHour": "2.50",
         "rates": [{"percent": 34, "instanceFamilies": ["m7i", "c7i"]}, {"percent": "27.5"}]}]}"""
    compute, gpu, zonal = read_terms(text).commitments
    rates = (CommittedRate(ppm=340_000, families=("c7i", "m7i")), CommittedRate(ppm=275_000))
    ends_at = datetime(2027, 3, 1, tzinfo=UTC)
    assert compute == SavingsPlan(name="compute", amount=2_500_000_000, rates=rates)
    assert gpu == ReservedInstances(
        name="gpu", instance_type="g5.xlarge", count=1, is_size_flexible=False, ends_at=ends_at
    )
    assert zonal == ReservedInstances(name="zonal", instance_type="m7i.large", count=10, zone="us-east-1a")


@pytest.mark.parametrize(
    ("change", "field", "problem"),
    [
        ({"instanceType": "m7i"}, "instanceType", "'m7i' is not a type"),
        ({"count": 0}, "count", "0 is not a number of instances, 1 or more"),
        ({"name": ""}, "name", "is empty"),
        ({"endsAt": "2027-03-01T00:00:00"}, "endsAt", "timezone"),
    ],
)
def test_reserved_instances_that_cannot_be_are_refused(change: dict[str, Any], field: str, problem: str) -> None:
    """Some that are misread cover nodes that nobody pays for, or none."""
    found = _refused({"reservedInstances": [LARGE | change]})
    assert found.field == f"reservedInstances[0].{field}"
    assert problem in found.problem


@pytest.mark.parametrize(
    ("change", "field", "problem"),
    [
        ({"dollarsPerHour": 0}, ".dollarsPerHour", "is nothing"),
        ({"dollarsPerHour": -1}, ".dollarsPerHour", "0 or more"),
        ({"rates": []}, ".rates", "is empty"),
        ({"rates": [{"percent": 100}]}, ".rates[0].percent", "below 100"),
        ({"rates": [{"percent": -1}]}, ".rates[0].percent", "0 to 100"),
        ({"rates": [{"percent": 1, "family": "m7i"}]}, ".rates[0]", "unknown field `family`"),
    ],
)
def test_a_savings_plan_that_cannot_be_is_refused(change: dict[str, Any], field: str, problem: str) -> None:
    """The same for a plan."""
    found = _refused({"savingsPlans": [PLAN | change]})
    assert found.field == f"savingsPlans[0]{field}"
    assert problem in found.problem


def test_each_commitment_has_a_name_of_its_own() -> None:
    """Plans say by name what covers a node."""
    found = _refused({"reservedInstances": [LARGE], "savingsPlans": [PLAN]})
    assert (found.field, found.subject) == ("savingsPlans[0].name", "price terms")
    assert "'a' is also reservedInstances[0]" in found.problem


def _refused(document: dict[str, Any]) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as caught:
        read_terms(json.dumps(document))
    return caught.value
