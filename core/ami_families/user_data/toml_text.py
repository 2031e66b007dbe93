"""Writes plain data as TOML, which the standard library only reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from typing import Final

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+\Z")


def write_toml(document: Mapping[str, object]) -> str:
    """The text of a document, keys and tables in order, values before tables as TOML demands."""
    return "\n".join(_table(document, ())).strip("\n") + "\n"


def _table(table: Mapping[str, object], path: tuple[str, ...]) -> Iterator[str]:
    plain = {k: v for k, v in table.items() if not isinstance(v, Mapping) and not _is_array_of_tables(v)}
    if path and (plain or not table):
        yield f"\n[{'.'.join(map(_key, path))}]"
    for key in sorted(plain):
        yield f"{_key(key)} = {_value(plain[key])}"
    for key in sorted(table.keys() - plain.keys()):
        value = table[key]
        if isinstance(value, Mapping):
            yield from _table(value, (*path, key))
        elif isinstance(value, list):
            for row in value:
                yield f"\n[[{'.'.join(map(_key, (*path, key)))}]]"
                yield from (f"{_key(inner)} = {_value(row[inner])}" for inner in sorted(row))


def _is_array_of_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _key(text: str) -> str:
    return text if _BARE_KEY.match(text) else _string(text)


def _string(text: str) -> str:
    """As in JSON, except that TOML requires the delete character escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(inner) for inner in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(k)} = {_value(value[k])}' for k in sorted(value))}}}"
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return repr(value)
