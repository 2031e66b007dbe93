"""Valid keys and values of labels in Kubernetes."""

from __future__ import annotations

import pytest

from core.model.values.label_syntax import is_label_key, is_label_value, labels_fault, requirement_fault
from core.model.values.requirements import Requirement


@pytest.mark.parametrize("key", ["team", "a", "example.com/team", "A_b.c-9", f"{'d' * 63}.x/{'n' * 63}"])
def test_a_key_is_a_name_with_or_without_a_domain(key: str) -> None:
    """Otherwise, a NodePool's own label is refused."""
    assert is_label_key(key)


@pytest.mark.parametrize(
    "key", ["", "/team", "a/b/c", "-a", "a-", "team\n", "Example.com/a", "n" * 64, f"{'d' * 254}/n"]
)
def test_other_text_is_no_key(key: str) -> None:
    """The kubelet would not start with it; a trailing line break would be a line of its own in a script."""
    assert not is_label_key(key)


def test_a_value_is_empty_or_a_name_of_63_characters() -> None:
    """An empty value is common; with a longer one, the kubelet does not start."""
    assert all(is_label_value(value) for value in ("", "a", "v" * 63, "1.2-3_x"))
    assert not any(is_label_value(value) for value in ("v" * 64, "a b", "a\n", 'a"', ".a", "\u0661"))


def test_a_fault_quotes_the_text_without_control_characters() -> None:
    """The message is written to logs and events, which control characters could forge."""
    assert labels_fault({"team": "a\nb"}) == r"'a\nb' cannot be the value of a label"
    assert requirement_fault(Requirement.one_of("t e", "a")) == "'t e' cannot be the key of a label"
    assert len(labels_fault({"team": "x" * 5000})) < 200
