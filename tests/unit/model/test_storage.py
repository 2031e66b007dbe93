"""The default StorageClass."""

from __future__ import annotations

from datetime import timedelta

from core.model.storage import StorageClass, default_class
from tests.builders import NOW


def a_class(name: str, *, age: int = 0, is_default: bool = True) -> StorageClass:
    return StorageClass(name=name, is_default=is_default, created_at=NOW - timedelta(days=age))


def test_of_several_defaults_the_newest_counts_then_the_first_by_name() -> None:
    assert default_class([a_class("old", age=2), a_class("new", age=1)]) == "new"
    assert default_class([a_class("b"), a_class("a")]) == "a"
    assert default_class([a_class("plain", is_default=False)]) is None
