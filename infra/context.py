"""Reads clusters from the CDK context: every key must be known, and every value is checked before synthesis."""

from __future__ import annotations

import difflib
import json
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from infra.config import ClusterConfig
from infra.conflicts import conflicts_between, conflicts_within
from infra.vpc import VpcConfig, parsed
from installation.settings import Settings, problem_of

CLUSTERS: Final = "clusters"
"""The key of the list with an entry per cluster; other keys are defaults of every entry."""

_OTHER_SPELLINGS: Final = {"nodeRole": "nodeRoles"}
_WIRED: Final = {
    "disrupt_function_arn",
    "kill_switch_parameter",
    "parts_machine_arn",
    "pausing_alarms",
    "shared_bucket_name",
    "shared_table_name",
    "zonal_shift_cluster_arn",
}
"""Settings that the stack itself fills in."""

SETTINGS: Final[Mapping[str, str]] = {
    to_camel(field.name): field.name
    for field in msgspec.structs.fields(Settings)
    if field.default is not msgspec.NODEFAULT and field.name not in _WIRED
}
"""Key of the context → field of the functions' settings."""

_EXPECTED: Final = {to_camel(name): field.description for name, field in ClusterConfig.model_fields.items()}

_EXPECTED_OF_VPC: Final = {to_camel(name): field.description for name, field in VpcConfig.model_fields.items()}

KEYS: Final = tuple(
    sorted({to_camel(name) for name in ClusterConfig.model_fields if name != "settings"} | set(SETTINGS))
)


class ContextError(Exception):
    """A problem of the context: a line for each key, with its value and what is allowed."""

    def __init__(self, problems: Iterable[str]) -> None:
        super().__init__("\n".join(problems))


def clusters(context: Mapping[str, Any], *, account: str | None, region: str | None) -> tuple[ClusterConfig, ...]:
    """Read the context of `cdk.json` and `-c key=value`.

    Args:
        context: The whole context; CDK's own keys (with `@` or `:`) are ignored.
        account: The credentials' account, used if the context names none.
        region: The credentials' region, used if the context names none.

    Raises:
        ContextError: If a key is not known, a value is not allowed, or values do not go together (`infra.conflicts`).
    """
    shared = {key: value for key, value in context.items() if ":" not in key and not key.startswith(("@", "aws-cdk"))}
    entries = parsed(shared.pop(CLUSTERS, [{}]))
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise ContextError([f"{CLUSTERS} = {json.dumps(entries)}: expected a list with an object per cluster"])
    base = {"region": region or "us-east-1", **({"account": account} if account else {}), **shared}
    problems: list[str] = []
    configs: list[ClusterConfig] = []
    for number, entry in enumerate(entries):
        where = f"{CLUSTERS}[{number}]." if CLUSTERS in context else ""
        config, wrong = _cluster({**base, **entry})
        problems += [f"{where if line.partition(' ')[0] in entry else ''}{line}" for line in wrong]
        if config is not None:
            configs.append(config)
    problems += conflicts_between(configs)
    if problems:
        raise ContextError(dict.fromkeys(problems))
    return tuple(configs)


def _cluster(entry: Mapping[str, Any]) -> tuple[ClusterConfig | None, list[str]]:
    values = {_OTHER_SPELLINGS.get(key, key): value for key, value in entry.items() if value is not None}
    problems = [_unknown(key) for key in values if key not in KEYS]
    settings = {SETTINGS[key]: _as_text(value) for key, value in values.items() if key in SETTINGS}
    problems += _wrong_settings(settings)
    config_values = {key: value for key, value in values.items() if key in KEYS and key not in SETTINGS}
    try:
        config = ClusterConfig.model_validate({**config_values, "settings": settings})
    except ValidationError as error:
        return None, problems + [
            _wrong(config_values, error_detail["loc"], error_detail["msg"]) for error_detail in error.errors()
        ]
    return config, problems + conflicts_within(config)


def _unknown(key: str) -> str:
    near = difflib.get_close_matches(key, KEYS, n=1)
    hint = f", did you mean {near[0]}?" if near else "."
    return f"{key} is not a key of the context{hint} Known: {', '.join((CLUSTERS, *KEYS))}"


def _wrong(values: Mapping[str, Any], location: Sequence[str | int], says: str) -> str:
    """Return one line about a problem that pydantic found: the path of the key, its value, and the allowed values."""
    key, *below = [str(part) for part in location if isinstance(part, str)]
    within = parsed(values.get(key))
    if not below and isinstance(within, dict):
        return f"{key}.{says.removeprefix('Value error, ')}"
    if not below:
        return f"{key} = {json.dumps(values.get(key))} is not allowed: expected {_EXPECTED[key]}"
    path, value = f"{key}.{below[0]}", within.get(below[0]) if isinstance(within, dict) else None
    if below[0] not in _EXPECTED_OF_VPC:
        return f"{path} is not a key of {key}. Known: {', '.join(_EXPECTED_OF_VPC)}"
    return f"{path} = {json.dumps(value)} is not allowed: expected {_EXPECTED_OF_VPC[below[0]]}"


def _wrong_settings(settings: Mapping[str, str]) -> list[str]:
    """Check each setting as the functions read it at their start."""
    hints = get_type_hints(Settings, include_extras=True)
    problems = []
    for field, text in settings.items():
        problem = problem_of(field, text)
        if problem:
            allowed = _allowed(hints[field])
            problems.append(
                f"{to_camel(field)} = {text} is not allowed: {f'expected {allowed}' if allowed else problem}"
            )
    return problems


def _allowed(hint: Any) -> str:
    """Describe the allowed values of a setting; empty for texts, whose parsers describe them."""
    origin = get_origin(hint)
    if origin is Annotated:
        base, meta = get_args(hint)
        return f"{_allowed(base)}, {meta.ge} or more" if getattr(meta, "ge", None) is not None else _allowed(base)
    if origin is Literal:
        return " or ".join(map(str, get_args(hint)))
    if origin in (Union, types.UnionType):
        return " or ".join(_allowed(part) for part in get_args(hint) if part is not types.NoneType)
    return {int: "a whole number", bool: "true or false"}.get(hint, "")


def _as_text(value: object) -> str:
    """Return a value in the form of an environment variable: lists of texts with commas, all else but texts as JSON."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value)
