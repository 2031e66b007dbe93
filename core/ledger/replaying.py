"""Repeats a recorded decision, and reports the differences."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any, Final

import msgspec

from core import codec
from core.disruption import disrupt
from core.errors import InvalidInputError
from core.ledger.entry import DISRUPT, PROVISION, LedgerEntry
from core.ledger.search_time import recorded_clock
from core.model.snapshot import Snapshot
from core.scheduling import schedule

DIFFERENCES_SHOWN: Final = 5


class UnknownFunctionError(InvalidInputError):
    """The entry is of a function that this release does not know."""


def decided_again(entry: LedgerEntry, snapshot: Snapshot) -> bytes:
    """Return the plan's bytes for the snapshot, decided by the same function under the same bound.

    Raises:
        UnknownFunctionError: If this release does not know the function.
    """
    options = msgspec.structs.replace(snapshot.options, improve_iterations=entry.improve_iterations)
    bounded = msgspec.structs.replace(snapshot, options=options)
    clock = recorded_clock(entry)
    if entry.function == PROVISION:
        return codec.encode_plan(schedule(bounded, clock))
    if entry.function == DISRUPT:
        return codec.encode_disruption_plan(disrupt(bounded, deadline=clock))
    raise UnknownFunctionError(f"{entry.function!r} is not a function that decides", subject=f"ledger entry {entry.id}")


def differences(before: bytes, after: bytes) -> list[str]:
    """Return the first few fields in which two plans differ."""
    return list(islice(_differing("", json.loads(before), json.loads(after)), DIFFERENCES_SHOWN))


def _differing(path: str, before: Any, after: Any) -> Any:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from _differing(f"{path}.{key}".lstrip("."), before.get(key), after.get(key))
    elif isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield f"{path}: {len(before)} elements became {len(after)}"
        for number, (old, new) in enumerate(zip(before, after, strict=False)):
            yield from _differing(f"{path}[{number}]", old, new)
    else:
        yield f"{path}: {_short(before)} became {_short(after)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


_SHOWN_MAX: Final = 120
