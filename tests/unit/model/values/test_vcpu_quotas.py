"""Which vCPU quota an instance type counts in."""

from __future__ import annotations

import pytest

from core import labels
from core.model.values.vcpu_quotas import BY_NAME, quota_of, sharing


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
