"""Digests by which the ledger names documents."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

import msgspec

from core.identity_cache import ByIdentity
from core.model.catalogue import Catalogue, InstanceType

_MARKETS_KEPT: Final = 16


def digest_of(raw: bytes) -> str:
    """The digest of a document."""
    return blake2b(raw, digest_size=16).hexdigest()


def catalogue_digest(catalogue: Catalogue) -> str:
    """Return a digest of all available types, class by class; the digests of unchanged parts are reused."""
    return digest_of("\n".join(market_digests(catalogue)).encode())


def market_digests(catalogue: Catalogue) -> list[str]:
    """Return digests of the default types, then of those of each EC2NodeClass by name."""
    by_class = catalogue.by_node_class
    return [_types_digest(catalogue.default), *(name + _types_digest(by_class[name]) for name in sorted(by_class))]


def decision_id(cluster: str, function: str, moment: str, plan: bytes) -> str:
    """Return the id of a decision: ten characters, derived from the cluster, the function, the snapshot's time and the plan."""
    text = "/".join((cluster, function, moment, digest_of(plan)))
    return blake2b(text.encode(), digest_size=5).hexdigest()


def _types_digest_of(types: tuple[InstanceType, ...]) -> str:
    return digest_of(msgspec.json.encode(types))


_types_digest: Final = ByIdentity(_types_digest_of, size=_MARKETS_KEPT)
