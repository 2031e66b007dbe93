"""Lets every node of an installation go, and ends what it leaves: step by step, until nothing is left or time is up."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Final

from cli.errors import InputError
from cli.output import JsonObject, counted
from cli.removal.documents import drain_document
from cli.removal.made_by_us import Made, MadeByUs
from lambdas.ports import DeniedError, PortError, TransientError

ROUND: Final = timedelta(seconds=15)
"""Between two looks: each lists the claims, the instances and the objects; a node takes minutes to drain."""

FAILURES_MAX: Final = 5
"""Looks in a row that may fail for a passing reason before the command gives up."""


def drain_all(
    made_by_us: MadeByUs, *, is_acting: bool, grace: timedelta | None, patience: timedelta
) -> tuple[JsonObject, bool]:
    """Return what there is or was left, and whether that is nothing.

    Args:
        made_by_us: What is to end.
        is_acting: Whether it ends; without it nothing is changed.
        grace: How long a drain may take before its pods are deleted; None: as the NodePools say.
        patience: How long to wait for the end. A later run goes on from there.

    Raises:
        InputError: If something cannot be read or may not be ended.
    """
    cluster, clock = made_by_us.cluster, made_by_us.clock
    until, failures = clock.now() + patience, 0
    try:
        hindrances, made = made_by_us.hindrances(), made_by_us.look()
        while is_acting and not hindrances and not made.is_nothing:
            try:
                _step(made_by_us, made, grace)
                hindrances, made = made_by_us.hindrances(), made_by_us.look()
                failures = 0
            except TransientError:
                failures += 1
                if failures > FAILURES_MAX:
                    raise
            if made.is_nothing or hindrances or clock.now() + ROUND > until:
                break
            _tell(made)
            made_by_us.pause(ROUND)
    except DeniedError as error:
        hint = "--profile says whose permissions count; docs/how-to/remove.md lists them. What is done stays done"
        raise InputError(f"cluster {cluster}: {error}", hint=hint) from error
    except PortError as error:
        raise InputError(f"cluster {cluster}: {error}", hint="run this again, it goes on from here") from error
    return drain_document(cluster, made, hindrances, is_acting=is_acting), made.is_nothing


def _step(made_by_us: MadeByUs, made: Made, grace: timedelta | None) -> None:
    """Do what can be done now. NodePools go first: without them nothing is launched for the pods that leave."""
    made_by_us.delete_node_pools(made)
    if grace is not None:
        made_by_us.bound_drains(made, grace)
    if not made.runs:
        made_by_us.clean(made)


def _tell(made: Made) -> None:
    leaving = sum(record.deletion is not None for record in made.claims)
    print(
        f"{counted(len(made.claims), 'claim')} left, {leaving} of them draining; {counted(len(made.instances), 'instance')}",
        file=sys.stderr,
    )
