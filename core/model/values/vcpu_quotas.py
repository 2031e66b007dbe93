"""EC2's vCPU quotas: instances of many types share one, on-demand and spot separately (Service Quotas, service `ec2`)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from core import labels


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
    found = _NAME.match(instance_type)
    letters, generation = found.groups() if found is not None else ("", "")
    return _OWN.get(letters + generation) or _OWN.get(letters) or _OWN.get(letters[:1]) or STANDARD


def sharing(quotas: Iterable[VcpuQuota], capacity_types: Iterable[str]) -> tuple[VcpuQuota, ...]:
    """Return these groups and all others that share a quota code with one of them in one of the capacity types."""
    given, kinds = tuple(quotas), tuple(capacity_types)
    codes = {quota.code(kind) for quota in given for kind in kinds} - {""}
    return tuple(found for found in QUOTAS if found in given or any(found.code(kind) in codes for kind in kinds))
