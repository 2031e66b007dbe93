"""Values that only the kubelet's configuration has."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from core.api.schemas.kubelet.values import CountOrExpression, FlushFrequency, GoDuration, Int32


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (GoDuration, "90s"),
        (GoDuration, "1h30m"),
        (GoDuration, "1.5s"),
        (FlushFrequency, "5s"),
        (FlushFrequency, 5_000_000_000),
        (CountOrExpression, 110),
        (CountOrExpression, "cpus * 10"),
        (Int32, -(2**31)),
    ],
)
def test_a_value_is_kept_as_it_is_written(kind: Any, value: object) -> None:
    assert TypeAdapter(kind).validate_python(value, strict=True) == value


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (GoDuration, "90", "'90' is not a duration such as 90s or 1h30m"),
        (GoDuration, 90, "90 is not a duration"),
        (FlushFrequency, True, "True is not a duration"),
        (FlushFrequency, 2**63, "is not a duration"),
        (CountOrExpression, True, "must be a whole number or an expression"),
        (CountOrExpression, 1.5, "must be a whole number or an expression"),
        (CountOrExpression, 2**31, "must be at most 2147483647"),
        (Int32, 2**31, "less than or equal to 2147483647"),
    ],
)
def test_another_value_is_refused(kind: Any, value: object, said: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(said)):
        TypeAdapter(kind).validate_python(value, strict=True)
