"""Small values of decisions: EC2's vCPU quotas, how nodes are sized, and how an instance's end was confirmed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Final

import msgspec

from core import labels
from core.errors import InvalidInputError
from core.model.values.quantity import PPM

# EC2's reason for the end of an instance.


class InstanceEnd(msgspec.Struct, frozen=True):
    """EC2's `StateReason`. `code` is empty if EC2 gives no reason; `message` lacks the code that EC2 repeats there."""

    code: str
    message: str = ""

    @property
    def said(self) -> str:
        """The code and its message for people."""
        return ": ".join(part for part in (self.code, self.message) if part)


# Names of nodes as people write them.


def names_node(text: str, node: str) -> bool:
    """Whether a text means a node: by its whole name, or without its domain, as tables show it (`ip-10-0-0-4`)."""
    return text == node or (bool(text) and node.startswith(f"{text}."))


# The account's vCPU quotas and their usage, as last read.


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
        return sum(used_by_code.get(code, 0) for used_by_code in self.used.values())


# Settings of an installation that size nodes. This module is small because every function loads it at start.


class SizingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Karpenter's provider options that size nodes.

    Attributes:
        vm_memory_overhead_ppm: Share of memory that the hypervisor and firmware use, in parts per million.
        reserved_enis: Network interfaces per node that are not for pods.
    """

    vm_memory_overhead_ppm: int = 75_000
    reserved_enis: int = 0


def settings_from(*, vm_memory_overhead_percent: str, reserved_enis: int) -> SizingSettings:
    """Parse the settings in the form of Karpenter's environment; despite its name, the percentage is a share such as `0.075`.

    Raises:
        InvalidInputError: If the share is not between 0 and 1.
    """
    try:
        share = Decimal(vm_memory_overhead_percent)
    except InvalidOperation:
        share = Decimal(-1)
    if not share.is_finite() or not 0 <= share < 1:
        problem = f"{vm_memory_overhead_percent!r} is not a fraction such as 0.075"
        raise InvalidInputError(problem, subject="environment", field="VM_MEMORY_OVERHEAD_PERCENT")
    return SizingSettings(vm_memory_overhead_ppm=int(share * PPM), reserved_enis=reserved_enis)


class VcpuQuota(msgspec.Struct, frozen=True, order=True):
    """A group of instance families with one quota on running vCPUs for each capacity type.

    Attributes:
        name: EC2's name of the group.
        on_demand, spot: Quota codes, empty where there is no such quota. Groups may share one of the two.
        families: The letters at the beginning of its type names, with the generation if that decides.
    """

    name: str
    on_demand: str
    spot: str
    families: tuple[str, ...]

    def code(self, capacity_type: str) -> str:
        """Return the quota code to raise in Service Quotas; empty if there is none."""
        return self.spot if capacity_type == labels.SPOT else self.on_demand

    def described(self, capacity_type: str) -> str:
        """Describe the quota for people."""
        code = self.code(capacity_type)
        return f"quota {code}, {self.name} {capacity_type}" if code else f"{self.name} {capacity_type}"


STANDARD: Final = VcpuQuota("Standard", "L-1216C47A", "L-34B43A08", ("a", "c", "d", "h", "i", "m", "r", "t", "z"))
QUOTAS: Final = (
    STANDARD,
    VcpuQuota("DL", "L-6E869C2A", "L-85EED4F7", ("dl",)),
    VcpuQuota("F", "L-74FC7D96", "L-88CF9481", ("f",)),
    VcpuQuota("G and VT", "L-DB2E81BA", "L-3819A6DF", ("g", "gr", "vt")),
    VcpuQuota("HPC", "L-F7808C92", "", ("hpc",)),
    VcpuQuota("High Memory", "L-43DA4232", "", ("u",)),
    VcpuQuota("Inf", "L-1945791B", "L-B5D1601B", ("inf",)),
    VcpuQuota("P", "L-417A185B", "L-7212CCBC", ("p",)),  # spot: p2, p3, p4
    VcpuQuota("P5", "L-417A185B", "L-C4BD4855", ("p5",)),
    VcpuQuota("P6", "L-417A185B", "", ("p6",)),
    VcpuQuota("Trn", "L-2C3B7624", "L-6B0D517C", ("trn",)),
    VcpuQuota("X", "L-7295265B", "L-E3A00192", ("x",)),
)

CODES: Final = frozenset(code for quota in QUOTAS for code in (quota.on_demand, quota.spot) if code)
"""The codes of all quotas."""

BY_NAME: Final = {quota.name: quota for quota in QUOTAS}

_OWN: Final = {family: quota for quota in QUOTAS for family in quota.families}
_NAME: Final = re.compile(r"([a-z]*)(\d*)")


def quota_of(instance_type: str) -> VcpuQuota:
    """Return the quota group of an instance type.

    It is found by the name's letters and generation, else by its letters, else by its first letter (`im4gn` counts as i).
    """
    match = _NAME.match(instance_type)
    letters, generation = match.groups() if match is not None else ("", "")
    return _OWN.get(letters + generation) or _OWN.get(letters) or _OWN.get(letters[:1]) or STANDARD


def sharing(quotas: Iterable[VcpuQuota], capacity_types: Iterable[str]) -> tuple[VcpuQuota, ...]:
    """Return these groups and all others that share a quota code with one of them in one of the capacity types."""
    groups, kinds = tuple(quotas), tuple(capacity_types)
    codes = {quota.code(kind) for quota in groups for kind in kinds} - {""}
    return tuple(limit for limit in QUOTAS if limit in groups or any(limit.code(kind) in codes for kind in kinds))
