"""Types of values in the kubelet's configuration that only the kubelet has."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from core.api.schemas import fields
from core.model.values.duration import parse_duration

_COUNT_MAX: Final = 2**31 - 1


def _go_duration(value: Any) -> Any:
    if not isinstance(value, str) or parse_duration(value) is None:
        raise PydanticCustomError("duration", "{given} is not a duration such as 90s or 1h30m", {"given": repr(value)})
    return value


def _duration_or_nanoseconds(value: Any) -> Any:
    is_whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= fields.WHOLE_MAX
    return value if is_whole else _go_duration(value)


def _count_or_expression(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise PydanticCustomError("count", "must be a whole number or an expression", {})
    if isinstance(value, int) and value > _COUNT_MAX:
        raise PydanticCustomError("count", "must be at most {most}", {"most": _COUNT_MAX})
    return value


Int32 = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
_GO_DURATION: Final = r"^[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"

GoDuration = Annotated[
    Any, AfterValidator(_go_duration), WithJsonSchema({"type": "string", "pattern": _GO_DURATION, "maxLength": 64})
]
FlushFrequency = Annotated[
    Any,
    AfterValidator(_duration_or_nanoseconds),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": _GO_DURATION}),
]
CountOrExpression = Annotated[
    Any,
    AfterValidator(_count_or_expression),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "maximum": _COUNT_MAX}),
]
Reserves = Annotated[dict[str, str], Field(json_schema_extra={"maxProperties": 10})]
"""At most ten keys, which bounds the cost of the API server's rules; only four are valid."""

Thresholds = Annotated[dict[str, Annotated[str, Field(max_length=64)]], Field(json_schema_extra={"maxProperties": 10})]
"""The same, of six."""
