"""Annotations by which a NodePool or EC2NodeClass steers Fleetwright where Karpenter's API has no field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from core import labels
from core.api.objects import JsonObject
from core.api.problem import Location
from core.model.node_pool import PER_MILLE
from core.model.snapshot import BALANCED_MOVES, GENTLE_MOVES, THOROUGH_MOVES
from core.model.values.quantity import parse

_FACTOR: Final = r"[a-z][a-z0-9-]*=[0-9]{1,2}(\.[0-9]{1,3})?"
_FACTORS: Final = re.compile(rf"{_FACTOR}(, *{_FACTOR})*")
_AMOUNT: Final = r"(cpu|memory)=[0-9]+(\.[0-9]+)?(m|k|[MGT]i?|Ki)?"
_AMOUNTS: Final = re.compile(rf"{_AMOUNT}(, *{_AMOUNT})*")

_NUMBER: Final = re.compile(r"[0-9]{1,9}")

FACTORS_MEANING: Final = "must be families with factors, such as m5a=1.2,m8g=0.85"
EXPIRY_WITHIN_BUDGETS: Final = "WithinBudgets"
EXPIRY_FORCEFUL: Final = "Forceful"
EXPIRY_MEANING: Final = f"must be {EXPIRY_WITHIN_BUDGETS} or {EXPIRY_FORCEFUL}"
MODE_MEANING: Final = f"must be {labels.OBSERVE}, or left out"
LARGEST_NODE_MEANING: Final = "must be cpu, memory or both, such as cpu=64,memory=256Gi"
MOVES_MEANING: Final = f"must be {THOROUGH_MOVES}, {BALANCED_MOVES} or {GENTLE_MOVES}"
PREFIX_DELEGATION_MEANING: Final = "must be true or false"
EVICTIONS_MEANING: Final = "must be a number of pods, such as 50"


def price_factors(annotations: Mapping[str, str]) -> dict[str, int]:
    """Return instance family → factor on its price, in thousandths: with `m5a=1.2` an m5a counts as costing a fifth more."""
    found = _pairs(annotations.get(labels.PRICE_FACTORS, ""))
    return {family: int(Decimal(factor) * PER_MILLE) for family, factor in found.items()}


def largest_node(annotations: Mapping[str, str]) -> dict[str, int]:
    """Return the CPU (millicores) and memory (bytes) that a node should not exceed; empty where any size is allowed."""
    found = _pairs(annotations.get(labels.LARGEST_NODE, ""))
    return {name: parse(amount, name) for name, amount in found.items()}


def expires_forcefully(annotations: Mapping[str, str]) -> bool:
    """Whether nodes are removed at their `expireAfter` regardless of budgets, do-not-disrupt and PodDisruptionBudgets."""
    return annotations.get(labels.EXPIRY) == EXPIRY_FORCEFUL


def evictions_per_hour(annotations: Mapping[str, str]) -> int | None:
    """Return how many pods of the NodePool consolidation and drift may evict in any hour, None for any number."""
    text = annotations.get(labels.EVICTIONS_PER_HOUR)
    return int(text) if text is not None else None


def bad_evictions_per_hour(metadata: JsonObject) -> list[Location]:
    """Return the field where the ceiling on evictions is invalid."""
    text = metadata.get("annotations", {}).get(labels.EVICTIONS_PER_HOUR)
    return [] if text is None or _NUMBER.fullmatch(text) else [("annotations", labels.EVICTIONS_PER_HOUR)]


def bad_moves(metadata: JsonObject) -> list[Location]:
    """Return the field where the weight of moves is invalid."""
    text = metadata.get("annotations", {}).get(labels.MOVES)
    good = (None, THOROUGH_MOVES, BALANCED_MOVES, GENTLE_MOVES)
    return [] if text in good else [("annotations", labels.MOVES)]


def bad_expiry(metadata: JsonObject) -> list[Location]:
    """Return the field where the setting for expiry is invalid."""
    text = metadata.get("annotations", {}).get(labels.EXPIRY)
    return [] if text in (None, EXPIRY_WITHIN_BUDGETS, EXPIRY_FORCEFUL) else [("annotations", labels.EXPIRY)]


def bad_mode(metadata: JsonObject) -> list[Location]:
    """Return the field where the mode is invalid."""
    text = metadata.get("annotations", {}).get(labels.MODE)
    return [] if text in (None, labels.OBSERVE) else [("annotations", labels.MODE)]


def bad_price_factors(metadata: JsonObject) -> list[Location]:
    """Return the field where the price factors are invalid."""
    text = metadata.get("annotations", {}).get(labels.PRICE_FACTORS)
    good = text is None or (_FACTORS.fullmatch(text) and all(price_factors(metadata["annotations"]).values()))
    return [] if good else [("annotations", labels.PRICE_FACTORS)]


def bad_largest_node(metadata: JsonObject) -> list[Location]:
    """Return the field where the bound on node size is invalid."""
    text = metadata.get("annotations", {}).get(labels.LARGEST_NODE)
    return [] if text is None or _AMOUNTS.fullmatch(text) else [("annotations", labels.LARGEST_NODE)]


def bad_prefix_delegation(metadata: JsonObject) -> list[Location]:
    """Return the field where the setting for prefixes is invalid."""
    text = metadata.get("annotations", {}).get(labels.PREFIX_DELEGATION)
    return [] if text in (None, "true", "false") else [("annotations", labels.PREFIX_DELEGATION)]


def _pairs(text: str) -> dict[str, str]:
    parts = (part.strip().partition("=") for part in text.split(",") if part)
    return {key: value for key, _, value in parts}
