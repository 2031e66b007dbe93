"""Prepares msgspec's struct types before threads decode JSON into them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

_prepared: set[type[msgspec.Struct]] = set()


def prepare_struct_types() -> None:
    """Make msgspec inspect every loaded struct type that it has not inspected yet.

    It does so when a type is first decoded, and stores the result before it is complete, since types may contain themselves: a
    second thread that decodes the same type at that moment crashes the process (msgspec 0.22.0). A new sandbox whose first
    batch holds several messages would crash this way.
    """
    for struct in _loaded(msgspec.Struct):
        if struct not in _prepared:
            with suppress(TypeError, NameError):  # a type that JSON is never decoded into
                msgspec.json.Decoder(struct)
            _prepared.add(struct)


def _loaded(base: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for struct in base.__subclasses__():
        yield struct
        yield from _loaded(struct)
