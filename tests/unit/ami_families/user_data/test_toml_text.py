"""Plain data as TOML."""

from __future__ import annotations

import tomllib
from datetime import date
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.ami_families.user_data.toml_text import write_toml

KEY = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
TOML_PLAIN = (
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.integers(-(2**40), 2**40) | st.booleans()
)


TOML = st.recursive(
    TOML_PLAIN | st.dates(min_value=date(1000, 1, 1)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(KEY, TOML, max_size=4))
def test_toml_round_trips(document: dict[str, Any]) -> None:
    """Otherwise, a user's Bottlerocket setting changes on its way to the node."""
    assert tomllib.loads(write_toml(document)) == document


def test_a_table_of_tables_alone_has_no_header_of_its_own() -> None:
    """Nodes' settings are read by people, too."""
    assert write_toml({"a": {"b": {"c": 1}}}) == "[a.b]\nc = 1\n"


def test_keys_and_tables_have_one_order_and_values_come_first() -> None:
    """Equal settings give equal user data: otherwise each pass would make another launch template."""
    document = {"b": {"y": [{"d": 1, "c": 2}], "x": [1, True]}, "a": date(2026, 1, 2), "empty": {}, "of space": "\x7f"}
    assert write_toml(document) == (
        'a = 2026-01-02\n"of space" = "\\u007F"\n\n[b]\nx = [1, true]\n\n[[b.y]]\nc = 2\nd = 1\n\n[empty]\n'
    )
    assert write_toml(dict(reversed(document.items()))) == write_toml(document)
