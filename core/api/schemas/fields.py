"""The kinds of single values that users write, each with the pattern that the API server checks it by.

Sources: Karpenter's CRDs; Kubernetes' rules for names and labels (a name of up to 63 characters, with or without a DNS
subdomain of up to 253 before it).
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from core.model.values.label_syntax import DOMAIN_LENGTH_MAX, NAME, NAME_LENGTH_MAX, SUBDOMAIN, length_fault

NEVER: Final = "Never"
WHOLE_MAX: Final = 2**63 - 1
"""The API server keeps whole numbers in 64 bits."""

_QUANTITY: Final = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$"

QUALIFIED_NAME: Final = rf"^({SUBDOMAIN}/)?{NAME}$"
TAINT_VALUE: Final = rf"^(({SUBDOMAIN}/)?{NAME})?$"
LABEL_VALUE: Final = rf"^({NAME})?$"
OBJECT_NAME: Final = rf"^{SUBDOMAIN}$"
DURATION: Final = r"^([0-9]+(s|m|h))+$"
NILLABLE_DURATION: Final = r"^(([0-9]+(s|m|h))+|Never)$"
WINDOW: Final = r"^(([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?$"
SCHEDULE: Final = r"^(@(annually|yearly|monthly|weekly|daily|midnight|hourly)|(.+)\s(.+)\s(.+)\s(.+)\s(.+))$"
NODES: Final = r"^((100|[0-9]{1,2})%|[0-9]+)$"
NO_SLASH: Final = r"^[^/]*$"
PRICE: Final = r"^[0-9]+(\.[0-9]+)?$"
PRICE_ADJUSTMENT: Final = r"^([+-][0-9]*\.?[0-9]+|\+[0-9]*\.?[0-9]+%|-[0-9]{1,2}(\.[0-9]+)?%|-100%)$"
SUBNET_ID: Final = r"subnet-[0-9a-z]+"
SECURITY_GROUP_ID: Final = r"sg-[0-9a-z]+"
AMI_ID: Final = r"ami-[0-9a-z]+"
RESERVATION_ID: Final = r"^cr-[0-9a-z]+$"
PLACEMENT_GROUP_ID: Final = r"^pg-[0-9a-z]+$"
ACCOUNT_ID: Final = r"^[0-9]{12}$"
AMI_ALIAS: Final = r"^[a-zA-Z0-9]+@.+$"
VOLUME_SIZE: Final = (
    r"^((?:[1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi|(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G"
    r"|([1-9]|[1-4][0-9]|5[0-8])Ti|([1-9]|[1-5][0-9]|6[0-4])T)$"
)

MEANING: Final = {
    QUALIFIED_NAME: "a qualified name such as team or example.com/team",
    TAINT_VALUE: "the value of a taint: letters, digits, '-', '_' and '.'",
    LABEL_VALUE: "the value of a label: up to 63 letters, digits, '-', '_' and '.'",
    OBJECT_NAME: "a DNS name in lower case",
    DURATION: "a duration such as 90s or 1h30m",
    NILLABLE_DURATION: "a duration such as 90s or 1h30m, or Never",
    WINDOW: "a duration of hours and minutes such as 1h30m",
    SCHEDULE: "a cron schedule of five fields, or one such as @daily",
    NODES: "a number of nodes such as 3, or a percentage such as 10%",
    NO_SLASH: "a group without a version: it must hold no '/'",
    PRICE: "a price in dollars such as 0.05",
    PRICE_ADJUSTMENT: "a signed amount such as +0.01, or a percentage from -100% upwards such as -10%",
    SUBNET_ID: "the id of a subnet, subnet-…",
    SECURITY_GROUP_ID: "the id of a security group, sg-…",
    AMI_ID: "the id of an image, ami-…",
    RESERVATION_ID: "the id of a capacity reservation, cr-…",
    PLACEMENT_GROUP_ID: "the id of a placement group, pg-…",
    ACCOUNT_ID: "an account id of twelve digits",
    AMI_ALIAS: "of the form family@version",
    VOLUME_SIZE: "a size such as 100Gi, of at most 59000Gi, 64000G, 58Ti or 64T",
}
"""What each pattern stands for, as the end of a sentence that begins with `is not`."""

_QUANTITY_SHAPE: Final = re.compile(_QUANTITY)
_POSITIVE_QUANTITY: Final = _QUANTITY.replace(r"(\+|-)?", r"\+?", 1)


def cel_is_short(key: str) -> str:
    """Return a CEL expression over `key`, true where `length_fault` finds nothing."""
    domain, name = f"{key}.indexOf('/') <= {DOMAIN_LENGTH_MAX}", f"{key}.find('[^/]*$').size() <= {NAME_LENGTH_MAX}"
    return f"{domain} && {name}"


def cel_is_qualified(key: str) -> str:
    """Return `is_label_key` as a CEL expression over `key`."""
    return f"{key}.matches(r'{QUALIFIED_NAME}') && {cel_is_short(key)}"


def shown(value: object) -> str:
    """Return a value as users write it: text in quotes, all else as in JSON."""
    return repr(value) if isinstance(value, str) else json.dumps(value, default=str)


def _short_enough(key: str) -> str:
    fault = length_fault(key)
    if fault is not None:
        raise PydanticCustomError("too_long_name", "{fault}", {"fault": fault})
    return key


def _quantity(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str) or not _QUANTITY_SHAPE.fullmatch(str(value)):
        raise PydanticCustomError(
            "quantity", "{given} is not a quantity such as 500m, 2 or 1.5Gi", {"given": shown(value)}
        )
    if isinstance(value, int) and abs(value) > WHOLE_MAX:
        raise PydanticCustomError(
            "quantity", "{given} has more digits than a number can hold; write it as text", {"given": str(value)}
        )
    if str(value).startswith("-"):
        raise PydanticCustomError("negative_quantity", "{given} is negative", {"given": repr(value)})
    return value


_SHORT: Final[dict[str, Any]] = {
    "x-kubernetes-validations": [
        {"rule": cel_is_short("self"), "message": "a name has at most 63 characters, its domain at most 253"}
    ]
}

QualifiedName = Annotated[
    str, Field(pattern=QUALIFIED_NAME, max_length=316, json_schema_extra=_SHORT), AfterValidator(_short_enough)
]
TaintValue = Annotated[
    str, Field(pattern=TAINT_VALUE, max_length=316, json_schema_extra=_SHORT), AfterValidator(_short_enough)
]
LabelValue = Annotated[str, Field(pattern=LABEL_VALUE, max_length=63)]
ObjectName = Annotated[str, Field(pattern=OBJECT_NAME, max_length=253)]
Whole = Annotated[int, Field(ge=-WHOLE_MAX - 1, le=WHOLE_MAX)]
Count = Annotated[int, Field(ge=0, le=2**31 - 1)]
NonEmpty = Annotated[str, Field(min_length=1)]
Duration = Annotated[str, Field(pattern=DURATION)]
NillableDuration = Annotated[str, Field(pattern=NILLABLE_DURATION)]
Quantity = Annotated[
    Any,
    AfterValidator(_quantity),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": _POSITIVE_QUANTITY, "minimum": 0}),
]
