"""What Service Quotas allows an account, and how much of it runs, as last read."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Final

import msgspec

USED_FRESH_FOR: Final = timedelta(minutes=30)
"""An older count of what others run says too little about now."""

LIMITS_FRESH_FOR: Final = timedelta(hours=3)
"""Three readings in vain: limits may have been raised since, and an outdated one would keep pods out forever."""

SHORT_PERCENT: Final = 90
"""From this share on a quota is short: a raise takes Service Quotas hours to days."""


class QuotaReading(msgspec.Struct, frozen=True, kw_only=True):
    """EC2's vCPU quotas of one account and region.

    Attributes:
        limits: Quota code → vCPUs that may run at once. Quotas that could not be read are missing.
        used: Cluster, empty for instances of others → quota code → vCPUs that run.
        limits_read_at, used_read_at: When each part was read.
        problems: What the last reading could not read, so that earlier values stay.
    """

    limits: dict[str, int]
    used: dict[str, dict[str, int]]
    limits_read_at: datetime
    used_read_at: datetime
    problems: tuple[str, ...] = ()

    def left_to(self, cluster: str, now: datetime) -> dict[str, int]:
        """Return quota code → vCPUs that a cluster may run in all: what others do not; empty where the reading is old."""
        if not self.is_fresh(now):
            return {}
        others = Counter[str]()
        for owner in sorted(self.used):
            if owner != cluster:
                others.update(self.used[owner])
        return {code: max(0, self.limits[code] - others[code]) for code in sorted(self.limits)}

    def is_fresh(self, now: datetime) -> bool:
        """Whether both parts are recent enough to bound plans: EC2 applies its quotas itself."""
        return now - self.used_read_at <= USED_FRESH_FOR and now - self.limits_read_at <= LIMITS_FRESH_FOR

    @property
    def has_own_instances(self) -> bool:
        """Whether instances run that Fleetwright launched, for whichever cluster of the account and region."""
        return any(self.used[owner] for owner in sorted(self.used) if owner)

    def is_short(self, code: str) -> bool:
        """Whether most of a quota runs; never for one without a known limit, or with none at all."""
        limit = self.limits.get(code, 0)
        return limit > 0 and self.used_of(code) * 100 >= limit * SHORT_PERCENT

    def used_of(self, code: str) -> int:
        """Return how many vCPUs of a quota run in the account."""
        return sum(own.get(code, 0) for own in self.used.values())
