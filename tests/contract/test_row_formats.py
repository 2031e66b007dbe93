"""Rows of the table between releases: the later one reads rows of the earlier one, and after a roll-back the reverse.

`rows/RELEASE.json` has bodies that this release wrote in the simulator, with every field that it knows. A later release
adds a file and leaves the earlier ones unchanged.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from core.lifecycle.records import ClaimRecord, CommandRecord
from core.version import VERSION

ROWS: Final = Path(__file__).parent / "rows"
TYPES: Final = {"ClaimRecord": ClaimRecord, "CommandRecord": CommandRecord}

BODIES: Final = [
    pytest.param(TYPES[name], body, id=f"{path.stem}-{name}-{number}")
    for path in sorted(ROWS.glob("*.json"))
    for name, bodies in json.loads(path.read_text(encoding="utf-8")).items()
    for number, body in enumerate(bodies)
]


@pytest.mark.parametrize(("type_", "body"), BODIES)
def test_a_row_of_an_earlier_release_is_read_without_loss(type_: type[Any], body: dict[str, Any]) -> None:
    """Otherwise, an update ends nodes whose claims it cannot read, or forgets when they are to go."""
    record = msgspec.json.decode(json.dumps(body), type=type_)
    assert lost(body, json.loads(msgspec.json.encode(record))) == []


@pytest.mark.parametrize(("type_", "body"), BODIES)
def test_a_row_of_a_later_release_is_read_after_a_roll_back(type_: type[Any], body: dict[str, Any]) -> None:
    """A later release writes fields that this one does not know: it must ignore them, at every depth."""
    assert msgspec.json.decode(json.dumps(with_news(body, type_)), type=type_) == msgspec.json.decode(
        json.dumps(body), type=type_
    )


@pytest.mark.parametrize("type_", TYPES.values())
def test_a_row_without_newer_fields_is_read(type_: type[Any]) -> None:
    """New fields have a default, because older rows lack them."""
    required = {field.name for field in msgspec.structs.fields(type_) if field.required}
    for path in ROWS.glob("*.json"):
        for body in json.loads(path.read_text(encoding="utf-8"))[type_.__name__]:
            msgspec.json.decode(json.dumps({k: v for k, v in body.items() if k in required}), type=type_)


def test_this_release_has_its_rows() -> None:
    """Otherwise, the next one would be tested against nothing."""
    assert (ROWS / f"{VERSION}.json").exists(), f"write bodies of this release's rows to {ROWS}/{VERSION}.json"


def lost(before: Any, after: Any, path: str = "$") -> list[str]:
    """Fields of `before` that are missing or different in `after`; a default may be missing."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            found
            for key, value in before.items()
            if value not in (None, "", [], {}, False, 0) or key in after
            for found in lost(value, after.get(key), f"{path}.{key}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [found for n, value in enumerate(before) for found in lost(value, after[n], f"{path}[{n}]")]
    return [] if before == after else [f"{path}: {before} is {after}"]


def with_news(body: Any, type_: type[Any]) -> Any:
    """The body as a later release might write it: one unknown field in each object that is a struct."""
    fields = {field.encode_name: field.type for field in msgspec.structs.fields(type_)}
    return {name: _news_in(value, fields.get(name)) for name, value in body.items()} | {"fieldOfTomorrow": {"a": 1}}


def _news_in(value: Any, hint: Any) -> Any:
    struct = _struct_of(hint)
    if struct is None:
        return value
    if isinstance(value, list):
        return [with_news(item, struct) if isinstance(item, dict) else item for item in value]
    return with_news(value, struct) if isinstance(value, dict) else value


def _struct_of(hint: Any) -> type[Any] | None:
    """The struct that a hint names: itself, one that may be missing, or the items of a tuple."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return None if hint.__struct_config__.array_like else hint
    found = [_struct_of(part) for part in getattr(hint, "__args__", ()) if part is not type(None)]
    return next((struct for struct in found if struct is not None), None)
