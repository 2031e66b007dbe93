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
