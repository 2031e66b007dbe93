"""Writes plain data as YAML: mappings and lists in block form, strings quoted as in JSON, which YAML includes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from core.errors import InvalidInputError
from core.model.values.label_syntax import shown

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*\Z")
_UNPRINTABLE: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON leaves unescaped in a string and YAML does not accept."""

_KEY_MAX: Final = 128
"""Far below YAML's 1,024, quotes and escapes included."""

_AMBIGUOUS: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})


def write_yaml(value: object) -> str:
    """The text of a document, ending in a newline. Keys keep their order.

    Raises:
        InvalidInputError: If a key is longer than YAML lets one be.
    """
    return "\n".join(_lines(value)) + "\n"


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _entry(f"{_key(str(key))}:", inner)
    elif isinstance(value, list | tuple) and value:
        for inner in value:
            first, *rest = _lines(inner)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield _scalar(value)


def _entry(key: str, value: object) -> Iterator[str]:
    if isinstance(value, dict | list | tuple) and value:
        yield key
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{key} {next(_lines(value))}"


def _key(text: str) -> str:
    if len(text) > _KEY_MAX:
        raise InvalidInputError(f"{shown(text)} is longer than a key may be in YAML")
    return text if _PLAIN_KEY.match(text) and text.lower() not in _AMBIGUOUS else _scalar(text)


def _scalar(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
