"""Short quotas of a NodePool."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core import labels
from core.model.values.quota_reading import USED_FRESH_FOR, QuotaReading
from core.model.values.requirements import Requirement
from core.model.values.vcpu_quotas import BY_NAME, STANDARD
from core.pools.short_quotas import short_quotas
from tests.builders import NOW, a_pool

P = BY_NAME["P"]
READING = QuotaReading(
    limits={STANDARD.on_demand: 100, STANDARD.spot: 100, P.on_demand: 96, P.spot: 0},
    used={"": {STANDARD.on_demand: 60, P.on_demand: 96}, "prod": {STANDARD.on_demand: 30, STANDARD.spot: 89}},
    limits_read_at=NOW,
    used_read_at=NOW,
)
STANDARD_SHORT = "quota L-1216C47A, Standard on-demand: 90 of 100 vCPUs run in the account"
P_SHORT = "quota L-417A185B, P on-demand: 96 of 96 vCPUs run in the account"
CATEGORY = f"{labels.AWS_GROUP}/instance-category"
FAMILY = f"{labels.AWS_GROUP}/instance-family"


@pytest.mark.parametrize(
    ("requirements", "told"),
    [
        ((), (STANDARD_SHORT, P_SHORT)),
        ((Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT),), ()),
        ((Requirement.one_of(CATEGORY, "c", "m", "r"),), (STANDARD_SHORT,)),
        ((Requirement.one_of(FAMILY, "p5", "p4d"),), (P_SHORT,)),
        ((Requirement.one_of(labels.INSTANCE_TYPE, "m5.large"),), (STANDARD_SHORT,)),
        ((Requirement.one_of(CATEGORY, "g"),), ()),
    ],
)
def test_a_quota_that_a_pool_may_count_in_is_told_from_nine_tenths_on(
    requirements: tuple[Requirement, ...], told: tuple[str, ...]
) -> None:
    """A quota of another family or capacity type is no business of its users; one of zero was never wanted."""
    assert short_quotas(a_pool("default", *requirements), READING, NOW) == told


def test_an_old_reading_tells_nothing() -> None:
    """What others run may have ended."""
    assert short_quotas(a_pool(), READING, NOW + USED_FRESH_FOR + timedelta(seconds=1)) == ()
