"""Reads YAML documents as plain data, like Kubernetes' tools; several times faster than PyYAML's own construction.

Built from libyaml's events: PyYAML spends most of its time on nodes and on resolving each scalar again, and manifests repeat
the same few scalars by the thousand. Text that looks like a date stays text, and keys are always text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import yaml
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

_BASE: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_MERGE: Final = "<<"
_SCALARS_MAX: Final = 65536

Next = Callable[[], Any]


def documents(text: str) -> Iterator[Any]:
    """The documents of a text one by one, None for an empty one.

    Raises:
        yaml.YAMLError: If the text is no YAML from there on; mostly with a mark that says where.
    """
    events = yaml.parse(text, Loader=_BASE)
    advance = events.__next__
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            yield _value(advance(), advance, {})


def _value(event: Any, advance: Next, anchors: dict[str, Any]) -> Any:
    kind = type(event)
    if kind is yaml.ScalarEvent:
        value = _scalar(event)
        if event.anchor is not None:
            anchors[event.anchor] = value
        return value
    if kind is yaml.MappingStartEvent:
        return _mapping(event, advance, anchors)
    if kind is yaml.SequenceStartEvent:
        return _sequence(event, advance, anchors)
    if event.anchor not in anchors:
        problem = f"found undefined alias {event.anchor!r}"
        raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
    return anchors[event.anchor]


def _scalar(event: Any) -> Any:
    plain, _ = event.implicit
    if plain:
        return _plain(event.value)
    if event.tag is None or event.tag == "!":
        return event.value
    try:
        return _SCALARS.construct_object(yaml.ScalarNode(event.tag, event.value, event.start_mark))
    except ValueError as error:
        raise yaml.constructor.ConstructorError(None, None, str(error), event.start_mark) from error


def _sequence(start: Any, advance: Next, anchors: dict[str, Any]) -> list[Any]:
    found: list[Any] = []
    if start.anchor is not None:
        anchors[start.anchor] = found
    while type(event := advance()) is not yaml.SequenceEndEvent:
        found.append(_value(event, advance, anchors))
    return found


def _mapping(start: Any, advance: Next, anchors: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if start.anchor is not None:
        anchors[start.anchor] = found
    merged: list[Any] = []
    while type(event := advance()) is not yaml.MappingEndEvent:
        if type(event) is not yaml.ScalarEvent:
            raise yaml.constructor.ConstructorError(None, None, "found a key that is not text", event.start_mark)
        value = _value(advance(), advance, anchors)
        if event.value == _MERGE and event.implicit[0]:
            merged += reversed(value) if isinstance(value, list) else [value]
        else:
            found[event.value] = value
    if merged:
        _merge(merged, found, start)
    return found


def _merge(merged: list[Any], into: dict[str, Any], start: Any) -> None:
    """The mapping that `<<` names comes first; the mapping's own keys override it."""
    if not all(isinstance(other, dict) for other in merged):
        problem = "expected a mapping or a list of mappings for merging"
        raise yaml.constructor.ConstructorError(None, None, problem, start.start_mark)
    own = dict(into)
    into.clear()
    for other in merged:
        into.update(other)
    into.update(own)


class _Scalars(SafeConstructor, Resolver):
    """PyYAML's rules for scalars, but for dates."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in Resolver.yaml_implicit_resolvers.items()
    }

    def __init__(self) -> None:
        SafeConstructor.__init__(self)
        Resolver.__init__(self)


_SCALARS: Final = _Scalars()


@lru_cache(maxsize=_SCALARS_MAX)
def _plain(text: str) -> Any:
    """What a scalar without quotes means."""
    tag = _SCALARS.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]  # PyYAML's stubs leave it bare
    return _SCALARS.construct_object(yaml.ScalarNode(tag, text))
