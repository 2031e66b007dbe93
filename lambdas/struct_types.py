"""What msgspec must know of the struct types before threads read JSON into them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

_prepared: set[type[msgspec.Struct]] = set()


def prepare_struct_types() -> None:
    """Let msgspec look into every struct type that is loaded and that it has not seen yet.

    It does so when a type is first decoded, and stores what it finds before that is complete, since types may contain
    themselves: a second thread that decodes the same type at that moment ends the process (msgspec 0.22.0). A new sandbox
    whose first batch holds several messages did.
    """
    for struct in _loaded(msgspec.Struct):
        if struct not in _prepared:
            with suppress(TypeError, NameError):  # no type that anything is decoded into: it holds a function, say
                msgspec.json.Decoder(struct)
            _prepared.add(struct)


def _loaded(base: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for struct in base.__subclasses__():
        yield struct
        yield from _loaded(struct)
