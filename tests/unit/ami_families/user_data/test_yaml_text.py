"""Plain data as YAML."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from core.ami_families.user_data.yaml_text import write_yaml

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
KEY = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
PLAIN = st.recursive(
    TEXT | st.integers(-(2**40), 2**40) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(KEY, PLAIN, max_size=4))
def test_yaml_round_trips(document: dict[str, Any]) -> None:
    """Otherwise, a label or setting with an odd character changes on its way to the node."""
    assert yaml.safe_load(write_yaml(document)) == document
