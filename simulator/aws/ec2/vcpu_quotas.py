"""The embedded account's vCPU quotas: refuses launches beyond them, and answers Service Quotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from core import labels
from core.model.values import quantity
from core.model.values.vcpu_quotas import quota_of
from simulator.aws.ec2.filters import paged
from simulator.aws.ec2.instances import Instances
from simulator.aws.exchange import Exchange, Pool

SHORT: Final = "VcpuLimitExceeded"
_PAGE: Final = 100


class VcpuQuotas:
    """Quotas by code; a quota without a limit is not listed and refuses nothing."""

    def __init__(self, limits: Mapping[str, int], exchange: Exchange, instances: Instances) -> None:
        self._limits = dict(sorted(limits.items()))
        self._exchange = exchange
        self._instances = instances

    def refuses(self, pool: Pool) -> tuple[str, str] | None:
        """The error code and message with which one more instance of a pool is refused; None where it is not."""
        code = _code(pool)
        limit = self._limits.get(code)
        if limit is None or self._used(code) + self._vcpus(pool) <= limit:
            return None
        return SHORT, f"Quota {code} allows {limit} vCPUs, and {self._used(code)} run"

    def list_quotas(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer service-quotas:ListServiceQuotas."""
        listed = [{"ServiceCode": "ec2", "QuotaCode": code, "Value": float(n)} for code, n in self._limits.items()]
        return paged("Quotas", listed, request, _PAGE)

    def _used(self, code: str) -> int:
        alive = (found for found in self._instances.all() if found.is_alive and not found.reservation)
        return sum(self._vcpus(found.pool) for found in alive if _code(found.pool) == code)

    def _vcpus(self, pool: Pool) -> int:
        found = self._exchange.instance_type(pool.instance_type)
        return 0 if found is None else found.capacity.get(quantity.CPU, 0) // 1000


def _code(pool: Pool) -> str:
    return quota_of(pool.instance_type).code(labels.SPOT if pool.capacity_type == labels.SPOT else labels.ON_DEMAND)
