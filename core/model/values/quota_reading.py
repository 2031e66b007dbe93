"""The account's vCPU quotas and their usage, as last read."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Final

import msgspec

USED_FRESH_FOR: Final = timedelta(minutes=30)
"""The maximum age of the usage of others; an older one says too little about the present."""

LIMITS_FRESH_FOR: Final = timedelta(hours=3)
"""Three missed readings: limits may have been raised since, and an outdated one would keep pods out forever."""

SHORT_PERCENT: Final = 90
"""The used share from which a quota is short: Service Quotas takes hours to days for a raise."""


class QuotaReading(msgspec.Struct, frozen=True, kw_only=True):
    """EC2's vCPU quotas of one account and region.

    Attributes:
        limits: Quota code → vCPUs that may run at once. Unreadable quotas are missing.
        used: Cluster (empty for instances of others) → quota code → running vCPUs.
        limits_read_at, used_read_at: When each part was read.
        problems: What the last reading failed to read; earlier values stay in use.
    """

    limits: dict[str, int]
    used: dict[str, dict[str, int]]
    limits_read_at: datetime
    used_read_at: datetime
    problems: tuple[str, ...] = ()

    def left_to(self, cluster: str, now: datetime) -> dict[str, int]:
        """Return quota code → vCPUs that a cluster may run: the quota less the usage of others; empty if the reading is old."""
        if not self.is_fresh(now):
            return {}
        others = Counter[str]()
        for owner in sorted(self.used):
            if owner != cluster:
                others.update(self.used[owner])
        return {code: max(0, self.limits[code] - others[code]) for code in sorted(self.limits)}

    def is_fresh(self, now: datetime) -> bool:
        """Whether both parts are recent enough to limit plans; EC2 enforces its quotas in any case."""
        return now - self.used_read_at <= USED_FRESH_FOR and now - self.limits_read_at <= LIMITS_FRESH_FOR

    @property
    def has_own_instances(self) -> bool:
        """Whether any instance runs that Fleetwright launched, for any cluster of the account and region."""
        return any(self.used[owner] for owner in sorted(self.used) if owner)

    def is_short(self, code: str) -> bool:
        """Whether most of a quota is used; false for an unknown limit or one of zero."""
        limit = self.limits.get(code, 0)
        return limit > 0 and self.used_of(code) * 100 >= limit * SHORT_PERCENT

    def used_of(self, code: str) -> int:
        """Return how many vCPUs of a quota run in the account."""
        return sum(own.get(code, 0) for own in self.used.values())
