"""Finds NodePools whose requirements exclude all instance types, and limits on resources that no instance type has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from cli.manifests.document import Document
from cli.validation.finding import Code, Finding, Severity, finding_in, nearest
from cli.validation.node_labels import REQUIREMENTS
from core import api, labels
from core.api.conversion import is_old
from core.api.objects import is_ours, kind_of, mapping, sequence
from core.api.problem import path_of
from core.errors import InvalidInputError
from core.model.catalogue import Catalogue
from core.model.node_pool import NodePool
from core.model.snapshot import Snapshot

_ALWAYS_COUNTED: Final = ("cpu", "memory", "pods", "ephemeral-storage", "nodes")
_USUALLY_MEANT: Final = {"gpu": "nvidia.com/gpu", "gpus": "nvidia.com/gpu", "vcpu": "cpu", "mem": "memory"}

ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""A placeholder time: whether objects can be read, and what a NodePool launches, does not depend on it."""


def empty_pools(document: Document, catalogue: Catalogue) -> Iterator[Finding]:
    """Return an error if separately satisfiable requirements together exclude all instance types or leave too few values."""
    pool = _pool_in(document)
    if pool is None or _depends_on_absent(pool, catalogue):
        return
    from core.scheduling.capacity.nodeclaim_template import why_unusable
    from core.scheduling.context import SchedulingContext
    from core.scheduling.explanation.pool_offers import pool_offers

    snapshot = Snapshot(now=ANY_TIME, node_pools=(pool,), catalogue=catalogue)
    templates = SchedulingContext(snapshot).templates
    if not templates:
        place = path_of(REQUIREMENTS)
        yield finding_in(document, Code.MATCHES_NOTHING, place, why_unusable(pool, snapshot))
        return
    offers = pool_offers(templates[0])
    if offers.conflict is not None:
        field = path_of((*REQUIREMENTS, offers.conflict))
        yield finding_in(document, Code.MATCHES_NOTHING, field, _nothing_left(document, offers.conflict, offers.before))
    for index, entry in enumerate(sequence(_at(document.object, REQUIREMENTS))):
        key = labels.normalized(str(mapping(entry).get("key")))
        if "minValues" in mapping(entry) and key in offers.missing:
            message = f"its requirements leave {offers.missing[key]} values of {key}: the NodePool launches nothing"
            field = path_of((*REQUIREMENTS, index, "minValues"))
            yield finding_in(document, Code.MATCHES_NOTHING, field, message)


def idle_limits(document: Document, catalogue: Catalogue) -> Iterator[Finding]:
    """Return a warning for each limit on a resource that no instance type has: it never stops a launch."""
    if not is_ours(document.object) or kind_of(document.object) != "NodePool" or is_old(document.object):
        return
    known = {*_ALWAYS_COUNTED, *(name for one in catalogue.default for name in one.capacity)}
    for name in mapping(_at(document.object, ("spec", "limits"))):
        meant = _USUALLY_MEANT.get(name, "") or nearest(name, known)
        if name not in known and (meant or "/" not in name):
            yield finding_in(
                document,
                Code.NO_EFFECT,
                path_of(("spec", "limits", name)),
                "no instance type has this resource, so the limit never stops a launch",
                severity=Severity.WARNING,
                suggestion=meant,
            )


def _pool_in(document: Document) -> NodePool | None:
    """Return the NodePool as if its class were ready; None if the document is not a readable NodePool."""
    if not is_ours(document.object) or kind_of(document.object) != "NodePool" or is_old(document.object):
        return None
    try:
        pool = api.node_pool(document.object)
    except InvalidInputError:
        return None
    return msgspec.structs.replace(pool, is_ready=None, replicas=None, deleted_at=None, own_annotations={})


def _depends_on_absent(pool: NodePool, catalogue: Catalogue) -> bool:
    """Whether the result depends on data outside the input: the class's images, zone ids, reservations of the account."""
    required = {requirement.key: requirement for requirement in pool.requirements}
    if labels.OS in required and pool.node_class.name not in catalogue.by_node_class:
        return True
    of_account = (labels.ZONE_ID, labels.RESERVATION_ID, labels.RESERVATION_TYPE, labels.RESERVATION_INTERRUPTIBLE)
    capacity = required.get(labels.CAPACITY_TYPE)
    return any(key in required for key in of_account) or (capacity is not None and capacity.has(labels.RESERVED))


def _nothing_left(document: Document, index: int, before: int) -> str:
    entry = mapping(sequence(_at(document.object, REQUIREMENTS))[index])
    values = ", ".join(str(value) for value in sequence(entry.get("values")))
    demand = f"{entry.get('key')} {entry.get('operator')}" + (f" [{values}]" if values else "")
    which = (
        f"none of the {before} instance types that the requirements before it leave" if index else "no type on offer"
    )
    return f"{which} meets {demand}: the NodePool launches nothing"


def _at(obj: Any, place: Sequence[str]) -> Any:
    for part in place:
        obj = mapping(obj).get(part)
    return obj
