"""Single values as users write them: what is accepted, and what a refusal says."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from core.api.schemas import fields
from tests.builders import NOW


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (fields.QUALIFIED_NAME, "team example.com/team a.b_c-d", "/team example.com/ -a"),
        (fields.LABEL_VALUE, "a a.b 1", "a/b -a"),
        (fields.DURATION, "90s 1h30m", "90 1d Never"),
        (fields.NILLABLE_DURATION, "90s Never", "never 90"),
        (fields.WINDOW, "8h 30m 1h30m 1h0s", "90s 1m1h"),
        (fields.NODES, "0 17 10% 100%", "101% -1 1.5 ten"),
        (fields.PRICE, "0 0.05", "-1 .5 1,5"),
        (fields.PRICE_ADJUSTMENT, "+0.01 -10% -100% +150%", "10% -101% 0.1"),
        (fields.ACCOUNT_ID, "123456789012", "1234 12345678901x"),
        (fields.AMI_ALIAS, "al2023@latest", "al2023 @latest"),
        (fields.VOLUME_SIZE, "1Gi 59000Gi 64T 64000G 58Ti", "0Gi 59001Gi 65T 100 1Mi"),
        (fields.SCHEDULE, "@daily", "daily *"),
    ],
)
def test_a_pattern_matches_what_its_meaning_says(pattern: str, good: str, bad: str) -> None:
    assert all(re.search(pattern, text) for text in good.split())
    assert not [text for text in bad.split() if re.search(pattern, text)]
    assert fields.MEANING[pattern]


def test_every_pattern_has_a_meaning() -> None:
    """Otherwise, the refusal of a value is a regular expression."""
    public = [value for name, value in vars(fields).items() if name.isupper() and not name.startswith("_")]
    patterns = {value for value in public if isinstance(value, str) and value.startswith("^")}
    assert patterns
    assert patterns <= set(fields.MEANING)


@pytest.mark.parametrize("value", [0, 2, "500m", "1.5Gi", "+2", "1e3", "0", 2**63 - 1])
def test_a_quantity_is_a_whole_number_or_text(value: Any) -> None:
    assert TypeAdapter(fields.Quantity).validate_python(value) == value


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (True, "true is not a quantity"),
        (1.5, "1.5 is not a quantity"),
        ("1 Gi", "'1 Gi' is not a quantity"),
        (None, "null is not a quantity"),
        ({"a": (1, NOW)}, "is not a quantity"),
        (-1, "-1 is negative"),
        ("-1m", "'-1m' is negative"),
        (2**63, "write it as text"),
    ],
)
def test_another_value_is_refused_as_it_was_written(value: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        TypeAdapter(fields.Quantity).validate_python(value)


@pytest.mark.parametrize(("name", "is_valid"), [("a" * 63, True), ("a" * 64, False), ("a.b/" + "c" * 64, False)])
def test_a_name_has_at_most_63_characters_beside_its_domain(name: str, is_valid: bool) -> None:
    if is_valid:
        assert TypeAdapter(fields.QualifiedName).validate_python(name) == name
    else:
        with pytest.raises(ValidationError):
            TypeAdapter(fields.QualifiedName).validate_python(name)


@pytest.mark.parametrize(("length", "is_valid"), [(316, True), (317, False)])
def test_a_name_with_its_domain_is_as_long_as_karpenters_definitions_let_it_be(length: int, *, is_valid: bool) -> None:
    """One character less than Kubernetes allows: a manifest that Karpenter refuses is refused here, too."""
    domain = ".".join(["d" * 63] * 3 + ["d" * 61])
    name = f"{domain}/{'n' * 63}"[: length - 317 or None]
    assert len(name) == length
    if is_valid:
        assert TypeAdapter(fields.QualifiedName).validate_python(name) == name
    else:
        with pytest.raises(ValidationError, match="at most 316 characters"):
            TypeAdapter(fields.QualifiedName).validate_python(name)


@pytest.mark.parametrize(("number", "is_good"), [(-1, False), (0, True), (2**31 - 1, True), (2**31, False)])
def test_a_count_is_what_kubernetes_stores_in_32_bits(number: int, is_good: bool) -> None:
    adapter = TypeAdapter(fields.Count)
    if is_good:
        assert adapter.validate_python(number) == number
    else:
        with pytest.raises(ValidationError):
            adapter.validate_python(number)
