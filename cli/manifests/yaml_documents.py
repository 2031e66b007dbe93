"""Reads YAML documents as plain data, like Kubernetes' tools; several times faster than PyYAML's own construction.

Built from libyaml's events: PyYAML spends most of its time on nodes and on resolving each scalar again, and manifests repeat
the same few scalars by the thousand. Text that looks like a date remains text, and keys are always text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import yaml
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

_BASE: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TIMESTAMP: Final = "tag:yaml.org,2002:timestamp"
_MERGE: Final = "<<"
_SCALARS_MAX: Final = 65536

_ALIASED_FREE: Final = 8 << 20
_ALIASED_RATIO: Final = 8
"""Aliases may expand to 8 MiB plus this many times the text itself. Without a bound, ten lines can expand to gigabytes."""

_JSON_TAGS: Final = frozenset(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null"))

Next = Callable[[], Any]


class RepeatedKey(NamedTuple):
    """A key that its mapping has already: its path in the document, and its position from 1. The last value counts."""

    path: tuple[str | int, ...]
    line: int
    column: int


def documents(text: str, repeated: list[RepeatedKey]) -> Iterator[Any]:
    """Yield the documents of a text, None for an empty one, and add the repeated keys of their mappings to `repeated`.

    Raises:
        yaml.YAMLError: If the next document is not YAML, or aliases expand to far more text than there is. Most errors have a
        mark of the position.
    """
    events = yaml.parse(text, Loader=_BASE)
    advance = events.__next__
    anchors = _Anchors(_ALIASED_FREE + _ALIASED_RATIO * len(text), repeated)
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            anchors.forget()
            yield _value(advance(), advance, anchors)


class _Anchors:
    """Anchored values, and the length of the text that each expands to, including its aliases.

    Attributes:
        repeated: The repeated keys so far, with their paths from the collection that is being read.
    """

    def __init__(self, left: int, repeated: list[RepeatedKey]) -> None:
        self.repeated = repeated
        self._left = left
        self._named: dict[str, tuple[Any, int] | None] = {}
        self._aliased = 0

    def forget(self) -> None:
        """Drop the anchors at the end of their document. The bound on expansion applies to the whole text."""
        self._named.clear()

    def place(self, since: int, part: str | int) -> int:
        """Put `part` before the paths of the repeated keys from index `since` on; return their number."""
        for index in range(since, len(self.repeated)):
            key = self.repeated[index]
            self.repeated[index] = RepeatedKey((part, *key.path), key.line, key.column)
        return len(self.repeated)

    def begin(self, start: Any) -> int:
        """Record the start of a collection; return the input of `end`."""
        if start.anchor is not None:
            self._named[start.anchor] = None
        return self._aliased

    def end(self, start: Any, value: Any, end: Any, before: int) -> None:
        """Anchor a value, if it has a name."""
        if start.anchor is not None:
            length = end.end_mark.index - start.start_mark.index + self._aliased - before
            self._named[start.anchor] = value, length

    def value(self, alias: Any) -> Any:
        """Return an alias's value. Raises yaml.YAMLError."""
        if alias.anchor not in self._named:
            problem = f"found undefined alias {alias.anchor!r}"
            raise yaml.composer.ComposerError(None, None, problem, alias.start_mark)
        named = self._named[alias.anchor]
        if named is None:
            problem = f"found alias {alias.anchor!r} within the value that it stands for"
            raise yaml.composer.ComposerError(None, None, problem, alias.start_mark)
        value, length = named
        self._aliased += length
        if self._aliased > self._left:
            problem = f"found aliases that stand for more than {self._left >> 20} MiB of text: write the values out"
            raise yaml.composer.ComposerError(None, None, problem, alias.start_mark)
        return value


def _value(event: Any, advance: Next, anchors: _Anchors) -> Any:
    kind = type(event)
    if kind is yaml.ScalarEvent:
        value = _scalar(event)
        anchors.end(event, value, event, anchors.begin(event))
        return value
    if kind is yaml.MappingStartEvent:
        return _mapping(event, advance, anchors)
    if kind is yaml.SequenceStartEvent:
        return _sequence(event, advance, anchors)
    return anchors.value(event)


def _scalar(event: Any) -> Any:
    plain, _ = event.implicit
    if plain:
        return _plain(event.value)
    if event.tag in (None, "!", _TIMESTAMP):
        return event.value
    if event.tag not in _JSON_TAGS:
        problem = f"found tag {event.tag!r}, for which JSON has no value"
        raise yaml.constructor.ConstructorError(None, None, problem, event.start_mark)
    try:
        return _SCALARS.construct_object(yaml.ScalarNode(event.tag, event.value, event.start_mark))
    except ValueError as error:
        raise yaml.constructor.ConstructorError(None, None, str(error), event.start_mark) from error


def _sequence(start: Any, advance: Next, anchors: _Anchors) -> list[Any]:
    found: list[Any] = []
    before, known = anchors.begin(start), len(anchors.repeated)
    while type(event := advance()) is not yaml.SequenceEndEvent:
        found.append(_value(event, advance, anchors))
        if len(anchors.repeated) > known:
            known = anchors.place(known, len(found) - 1)
    anchors.end(start, found, event, before)
    return found


def _mapping(start: Any, advance: Next, anchors: _Anchors) -> dict[str, Any]:
    found: dict[str, Any] = {}
    before, known = anchors.begin(start), len(anchors.repeated)
    merged: list[Any] = []
    while type(event := advance()) is not yaml.MappingEndEvent:
        if type(event) is not yaml.ScalarEvent:
            raise yaml.constructor.ConstructorError(None, None, "found a key that is not text", event.start_mark)
        value = _value(advance(), advance, anchors)
        if len(anchors.repeated) > known:
            known = anchors.place(known, event.value)
        if event.value == _MERGE and event.implicit[0]:
            merged += reversed(value) if isinstance(value, list) else [value]
        else:
            if event.value in found:
                mark: Any = event.start_mark
                anchors.repeated.append(RepeatedKey((event.value,), mark.line + 1, mark.column + 1))
                known += 1
            found[event.value] = value
    if merged:
        _merge(merged, found, start)
    anchors.end(start, found, event, before)
    return found


def _merge(merged: list[Any], into: dict[str, Any], start: Any) -> None:
    """Merge the mapping of `<<` first; the mapping's own keys override it."""
    if not all(isinstance(other, dict) for other in merged):
        problem = "expected a mapping or a list of mappings for merging"
        raise yaml.constructor.ConstructorError(None, None, problem, start.start_mark)
    own = dict(into)
    into.clear()
    for other in merged:
        into.update(other)
    into.update(own)


class _Scalars(SafeConstructor, Resolver):
    """PyYAML's rules for scalars, except for dates."""

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
    """Return the value of a scalar without quotes."""
    tag = _SCALARS.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]  # PyYAML's stubs leave it bare
    return _SCALARS.construct_object(yaml.ScalarNode(tag, text))
