"""What this release keeps for another one to read: the types, and a body of each with every field that it knows.

`python -m tests.contract.stored_bodies` writes them to `rows/RELEASE.json`, once for each release, as its last step.
"""

from __future__ import annotations

import json
import types
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from adapters.messages import WorkItem
from adapters.store import SweepState
from core.approval.proposal import Proposal
from core.brakes import Brake
from core.breakers import Breaker
from core.catalogue.build import MarketFacts
from core.disruption.move_history import CommandOutcome, FailedCommand, Rollout
from core.launch.denials import LaunchDenial
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.model.plan import StoredTarget
from core.model.snapshot import EvictedNode, MovedWorkload
from core.version import VERSION

ROWS: Final = Path(__file__).parent / "rows"

STORED: Final[tuple[type[msgspec.Struct], ...]] = (
    Brake,
    Breaker,
    ClaimRecord,
    CommandOutcome,
    CommandRecord,
    EvictedNode,
    FailedCommand,
    LaunchDenial,
    MarketFacts,
    MovedWorkload,
    Proposal,
    Rollout,
    StoredTarget,
    SweepState,
    WorkItem,
)
"""Rows of the table, the market in the bucket, messages of the work queue."""

TYPES: Final = {type_.__name__: type_ for type_ in STORED}

_NOW: Final = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
_SIMPLE: Final[dict[Any, Any]] = {
    str: "text",
    int: 7,
    float: 0.5,
    bool: True,
    datetime: _NOW,
    timedelta: timedelta(minutes=10),
}


def complete(hint: Any) -> Any:
    """A value of this type in which nothing is left out: every field has a value, every collection one item."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return complete(arguments[0])
    if origin is Literal:
        return arguments[0]
    if origin in (Union, types.UnionType):
        return complete(next(part for part in arguments if part is not types.NoneType))
    if origin in (tuple, list, frozenset, set):
        parts = arguments[:1] if arguments[-1] is ... else arguments
        return origin(complete(part) for part in parts)
    if origin is not None:
        return {complete(arguments[0]): complete(arguments[1])}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = get_type_hints(hint, include_extras=True)
        return hint(**{name: complete(hints[name]) for name in hint.__struct_fields__})
    return _SIMPLE[hint]


def body_of(type_: type[msgspec.Struct]) -> Any:
    """The JSON of a complete value."""
    return json.loads(msgspec.json.encode(complete(type_)))


def main() -> None:
    """Write this release's bodies, after those that are there."""
    path = ROWS / f"{VERSION}.json"
    written = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for name, type_ in TYPES.items():
        bodies, body = written.setdefault(name, []), body_of(type_)
        if body not in bodies:
            bodies.append(body)
    path.write_text(json.dumps(dict(sorted(written.items())), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()


# Bodies as a later release might write them: every object that is a struct has a field that this release does not know.


NEWS: Final = {"fieldOfTomorrow": {"a": 1}}


def with_news(body: Any, hint: Any) -> Any:
    """The body of a value of this type, with an unknown field in each of its objects."""
    if isinstance(body, list):
        items = _items_of(hint)
        return [with_news(item, items) for item in body] if items is not None else body
    if not isinstance(body, dict):
        return body
    struct = _struct_of(hint)
    if struct is not None:
        fields, hints = msgspec.structs.fields(struct), get_type_hints(struct, include_extras=True)
        hint_by_name = {field.encode_name: hints[field.name] for field in fields}
        return {name: with_news(value, hint_by_name.get(name)) for name, value in body.items()} | NEWS
    values = [get_args(part)[1] for part in (hint, *get_args(hint)) if get_origin(part) is dict]
    return {name: with_news(value, values[0]) for name, value in body.items()} if values else body


def _struct_of(hint: Any) -> type[msgspec.Struct] | None:
    """The struct that a hint names, itself or as one that may be missing."""
    for part in (hint, *get_args(hint)):
        if isinstance(part, type) and issubclass(part, msgspec.Struct) and get_origin(hint) not in (dict, tuple):
            return None if part.__struct_config__.array_like else part
    return None


def _items_of(hint: Any) -> Any:
    """The type of the items of a collection; None where it has several, or is a struct that is written as a list."""
    for part in (hint, *get_args(hint)):
        if get_origin(part) in (tuple, list, frozenset) and get_args(part)[-1] is ...:
            return get_args(part)[0]
    return None
