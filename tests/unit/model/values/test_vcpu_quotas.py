"""Which vCPU quota an instance type counts in."""

from __future__ import annotations

import pytest

from core import labels
from core.model.values.vcpu_quotas import BY_NAME, CODES, quota_of, sharing


@pytest.mark.parametrize(
    ("instance_type", "quota"),
    [
        ("m7g.large", "Standard"),
        ("im4gn.large", "Standard"),
        ("d3en.xlarge", "Standard"),
        ("t3.small", "Standard"),
        ("hpc7a.96xlarge", "HPC"),
        ("p4de.24xlarge", "P"),
        ("p5en.48xlarge", "P5"),
        ("p6-b200.48xlarge", "P6"),
        ("g5g.xlarge", "G and VT"),
        ("gr6.4xlarge", "G and VT"),
        ("inf2.xlarge", "Inf"),
        ("trn1.2xlarge", "Trn"),
        ("u7i-12tb.224xlarge", "High Memory"),
        ("u-6tb1.56xlarge", "High Memory"),
        ("x2gd.metal", "X"),
        ("dl1.24xlarge", "DL"),
        ("f2.6xlarge", "F"),
        ("vt1.3xlarge", "G and VT"),
        ("g4dn.xlarge", "G and VT"),
        ("a1.medium", "Standard"),
        ("z1d.large", "Standard"),
        ("hs1.8xlarge", "Standard"),
        ("p2.xlarge", "P"),
        ("p7.large", "P"),
        ("new1.large", "Standard"),
        ("", "Standard"),
    ],
)
def test_a_type_counts_in_the_quota_of_its_letters(instance_type: str, quota: str) -> None:
    """Otherwise, a short quota for GPUs closes every other type, or none."""
    assert quota_of(instance_type).name == quota


def test_a_quota_has_the_code_that_a_person_can_request_more_of() -> None:
    assert "L-34B43A08" in BY_NAME["Standard"].described(labels.SPOT)
    assert "L-417A185B" in BY_NAME["P"].described(labels.ON_DEMAND)
    assert BY_NAME["HPC"].described(labels.SPOT) == "HPC spot"


def test_p5_shares_its_quota_on_demand_and_has_one_of_its_own_on_spot() -> None:
    """Otherwise, spot plans of p5 are bounded by the quota of p2, p3 and p4."""
    older, p5 = BY_NAME["P"], BY_NAME["P5"]
    assert older.code(labels.ON_DEMAND) == p5.code(labels.ON_DEMAND)
    assert older.code(labels.SPOT) != p5.code(labels.SPOT)
    assert [quota.name for quota in sharing([p5], [labels.ON_DEMAND])] == ["P", "P5", "P6"]
    assert [quota.name for quota in sharing([p5], [labels.SPOT])] == ["P5"]
    assert [quota.name for quota in sharing([BY_NAME["HPC"]], [labels.SPOT])] == ["HPC"]


@pytest.mark.parametrize(
    ("name", "on_demand", "spot"),
    [
        ("Standard", "L-1216C47A", "L-34B43A08"),
        ("DL", "L-6E869C2A", "L-85EED4F7"),
        ("F", "L-74FC7D96", "L-88CF9481"),
        ("G and VT", "L-DB2E81BA", "L-3819A6DF"),
        ("HPC", "L-F7808C92", ""),
        ("High Memory", "L-43DA4232", ""),
        ("Inf", "L-1945791B", "L-B5D1601B"),
        ("P", "L-417A185B", "L-7212CCBC"),
        ("P5", "L-417A185B", "L-C4BD4855"),
        ("P6", "L-417A185B", ""),
        ("Trn", "L-2C3B7624", "L-6B0D517C"),
        ("X", "L-7295265B", "L-E3A00192"),
    ],
)
def test_codes_are_those_of_service_quotas(name: str, on_demand: str, spot: str) -> None:
    """A person requests more of the code; under a wrong one, of another quota."""
    quota = BY_NAME[name]
    assert (quota.code(labels.ON_DEMAND), quota.code(labels.RESERVED), quota.code(labels.SPOT)) == (
        on_demand,
        on_demand,
        spot,
    )
    assert {on_demand, spot} - {""} <= CODES
