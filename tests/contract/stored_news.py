"""Bodies as a later release might write them: every object that is a struct has a field that this release does not know."""

from __future__ import annotations

from typing import Any, Final, get_args, get_origin, get_type_hints

import msgspec

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
        known = {field.encode_name: hints[field.name] for field in fields}
        return {name: with_news(value, known.get(name)) for name, value in body.items()} | NEWS
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
