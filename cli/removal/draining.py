"""Drains every node of an installation and removes its objects, in rounds, until nothing remains or time is up."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Final

from adapters.ports import DeniedError, PortError, TransientError
from cli.errors import InputError
from cli.removal.documents import drain_document
from cli.removal.owned_resources import OwnedResources, RemainingResources
from cli.terminal.output import counted
from core.api.objects import JsonObject

ROUND: Final = timedelta(seconds=15)
"""Time between two rounds: each lists claims, instances and objects; a node takes minutes to drain."""

FAILURES_MAX: Final = 5
"""The most rounds in a row that may fail for a transient reason."""


def drain_all(
    resources: OwnedResources, *, is_acting: bool, grace: timedelta | None, timeout: timedelta
) -> tuple[JsonObject, bool]:
    """Return what remains or would be removed, and whether that is nothing.

    Args:
        resources: The resources to remove.
        is_acting: Whether to remove them; otherwise nothing is changed.
        grace: How long a drain may take before its pods are deleted; None for the NodePools' own limits.
        timeout: How long to wait for the end. A later run continues from there.

    Raises:
        InputError: If something cannot be read or must not be removed.
    """
    cluster, clock = resources.cluster, resources.clock
    until, failures, has_begun = clock.now() + timeout, 0, False
    try:
        hindrances, remaining = resources.hindrances(), resources.observe()
        while is_acting and not hindrances and not remaining.is_nothing:
            has_begun = True
            try:
                _step(resources, remaining, grace)
                hindrances, remaining = resources.hindrances(), resources.observe()
                failures = 0
            except TransientError:
                failures += 1
                if failures > FAILURES_MAX:
                    raise
            if remaining.is_nothing or hindrances or clock.now() + ROUND > until:
                break
            _report(remaining)
            resources.pause(ROUND)
    except DeniedError as error:
        hint = "--profile says whose permissions count; docs/how-to/remove.md lists them. What is done stays done"
        raise InputError(f"cluster {cluster}: {error}", hint=hint) from error
    except PortError as error:
        raise InputError(f"cluster {cluster}: {error}", hint="run this again: it continues from here") from error
    document = drain_document(cluster, remaining, hindrances, is_acting=is_acting, has_begun=has_begun)
    return document, remaining.is_nothing


def _step(resources: OwnedResources, remaining: RemainingResources, grace: timedelta | None) -> None:
    """Take all possible steps now. NodePools are deleted first: without them nothing is launched for evicted pods."""
    resources.delete_node_pools(remaining)
    if grace is not None:
        resources.bound_drains(remaining, grace)
    if not remaining.runs:
        resources.clean(remaining)


def _report(remaining: RemainingResources) -> None:
    leaving = sum(record.deletion is not None for record in remaining.claims)
    claims, instances = counted(len(remaining.claims), "claim"), counted(len(remaining.instances), "instance")
    print(f"{claims} left, {leaving} of them draining; {instances}", file=sys.stderr)
