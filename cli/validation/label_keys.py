"""Recognizes label keys that nearly match those of nodes, and keys that Karpenter no longer uses."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from cli.validation.finding import nearest
from core import labels

KNOWN_KEYS: Final = tuple(sorted({*labels.WELL_KNOWN, *labels.ALIASES, labels.HOSTNAME, labels.ZONE_ID}))
"""Labels that all nodes have."""

_DOMAINS: Final = tuple(sorted({key.partition("/")[0] for key in KNOWN_KEYS} | {labels.CORE_GROUP, labels.AWS_GROUP}))
"""Domains of nodes' labels. A key in another domain is the user's own, whatever its spelling."""


def nearest_label(key: str, provided: Collection[str] = ()) -> str:
    """Return the node label that a key probably means; empty if it is one, or is the user's own.

    Args:
        key: A key as written.
        provided: Keys that NodePools of the input give to their nodes.
    """
    if key in KNOWN_KEYS or key in provided:
        return ""
    domain, _, name = key.rpartition("/")
    if domain and domain not in _DOMAINS:
        return ""
    same_name = [known for known in KNOWN_KEYS if known.rpartition("/")[2] == name and known not in labels.ALIASES]
    if same_name:
        return same_name[0]
    return nearest(key, KNOWN_KEYS) if domain else ""
