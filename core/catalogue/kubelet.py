"""The kubelet settings of an EC2NodeClass that change how much of a node pods can use."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec

from core.errors import InvalidInputError
from core.model.values import quantity

RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage", "pid")


class Threshold(msgspec.Struct, frozen=True):
    """An eviction threshold: an absolute amount, or a share of capacity in parts per million."""

    amount: int = 0
    share_ppm: int | None = None

    def of(self, capacity: int) -> int:
        """Return the amount that it reserves of `capacity`; exactly 100 % means that the threshold is off (Kubernetes)."""
        if self.share_ppm is None:
            return self.amount
        return 0 if self.share_ppm == 1_000_000 else -(-capacity * self.share_ppm // 1_000_000)


class KubeletSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of `spec.kubelet` that size a node; None and missing names mean the default.

    Expressions are ignored, as in Karpenter without the gate NodeClassCEL, which is off by default.
    """

    max_pods: int | None = None
    pods_per_core: int = 0
    kube_reserved: tuple[tuple[str, int], ...] = ()
    system_reserved: tuple[tuple[str, int], ...] = ()
    eviction_memory: Threshold | None = None
    eviction_storage: Threshold | None = None


def read_kubelet(block: Mapping[str, Any]) -> KubeletSettings:
    """Read the block.

    Raises:
        InvalidInputError: If a setting that sizes nodes has the wrong type or sign.
    """
    hard = _mapping(block, "evictionHard")
    return KubeletSettings(
        max_pods=None if isinstance(block.get("maxPods"), str) else _count(block, "maxPods"),
        pods_per_core=_count(block, "podsPerCore") or 0,
        kube_reserved=_reserved(block, "kubeReserved"),
        system_reserved=_reserved(block, "systemReserved"),
        eviction_memory=_threshold(hard, "memory.available", quantity.MEMORY),
        eviction_storage=_threshold(hard, "nodefs.available", quantity.EPHEMERAL_STORAGE),
    )


def expressions(block: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the settings written as expressions: no kubelet understands them, so nodes of the class would not start."""
    reserved = [
        f"{name}.{resource}"
        for name in ("kubeReserved", "systemReserved")
        for resource, text in sorted(_mapping(block, name).items())
        if _amount(text, resource) is None
    ]
    return (*(["maxPods"] if isinstance(block.get("maxPods"), str) else []), *reserved)


def _amount(text: str, resource: str) -> int | None:
    try:
        return quantity.parse(text, resource)
    except InvalidInputError:
        return None


def _count(block: Mapping[str, Any], name: str) -> int | None:
    value = block.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInputError(f"{value!r} is not a whole number of zero or more", field=f"spec.kubelet.{name}")
    return value


def _mapping(block: Mapping[str, Any], name: str) -> dict[str, str]:
    value = block.get(name) or {}
    if not isinstance(value, dict):
        raise InvalidInputError(f"{value!r} is not a mapping", field=f"spec.kubelet.{name}")
    return {str(key): str(inner) for key, inner in value.items()}


def _reserved(block: Mapping[str, Any], name: str) -> tuple[tuple[str, int], ...]:
    kept = []
    for resource, text in sorted(_mapping(block, name).items()):
        if resource not in RESERVABLE:
            raise InvalidInputError(
                f"{resource} cannot be reserved, only {', '.join(RESERVABLE)}", field=f"spec.kubelet.{name}"
            )
        amount = _amount(text, resource)
        if amount is None:
            continue  # an expression, which has no effect while Karpenter's gate NodeClassCEL is off
        if amount < 0:
            raise InvalidInputError(f"{text!r} is negative", field=f"spec.kubelet.{name}.{resource}")
        kept.append((resource, amount))
    return tuple(kept)


def _threshold(hard: Mapping[str, str], signal: str, resource: str) -> Threshold | None:
    text = hard.get(signal)
    if text is None:
        return None
    if not text.endswith("%"):
        return Threshold(quantity.parse(text, resource))
    try:
        return Threshold(share_ppm=int(Decimal(text[:-1]) * 10_000))
    except (InvalidOperation, ValueError) as error:
        raise InvalidInputError(f"{text!r} is not a percentage", field=f"spec.kubelet.evictionHard.{signal}") from error
