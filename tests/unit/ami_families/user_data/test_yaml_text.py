"""Plain data as YAML."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from core.ami_families.user_data.yaml_text import write_yaml
from core.errors import InvalidInputError

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


def test_mappings_and_lists_are_written_as_a_person_would() -> None:
    """A node's user data are read when it does not join."""
    assert write_yaml({"a": [{"b": 1, "c": []}, "x"], "no": {}, "d": ("e",)}) == (
        'a:\n  - b: 1\n    c: []\n  - "x"\n"no": {}\nd:\n  - "e"\n'
    )


def test_a_key_is_as_long_as_yaml_lets_it_be() -> None:
    assert write_yaml({"k" * 128: 1}) == f"{'k' * 128}: 1\n"
    with pytest.raises(InvalidInputError, match="longer than a key may be"):
        write_yaml({"k" * 129: 1})
