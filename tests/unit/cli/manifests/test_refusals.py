"""What the API server refuses, by a table of changes to plain objects and by its own strategies."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from cli.manifests import checks, cluster_refusals
from cli.manifests.inventory import Document, refusals_of
from cli.validation.examine import refused_fields
from tests.e2e.parts.processes import LackingError
from tests.oracle_scheduler import creating

# A row has a fragment of a manifest, and the fields that are refused in it.


TABLE: Final = Path(__file__).with_name("refusals.txt")
BASES: Final[dict[str, dict[str, Any]]] = {
    obj["kind"]: obj for obj in yaml.safe_load_all(Path(__file__).with_name("accepted.yaml").read_text("utf-8"))
}


def merged(base: Any, change: Any) -> Any:
    """Return a value with a change: mappings are joined, anything else is replaced, and null takes a field away."""
    if not isinstance(base, dict) or not isinstance(change, dict):
        return change
    joined = {**base, **{key: merged(base.get(key), part) for key, part in change.items()}}
    return {key: part for key, part in joined.items() if part is not None}


def refusals(obj: dict[str, Any]) -> list[tuple[str, str]]:
    return [(finding.field, finding.message) for finding in refused_fields(Document("a.yaml", 0, obj))]


def rows() -> list[tuple[str, str, list[str]]]:
    """Return kind, change and refused fields of each row: `Pod: {change} -> field, field`; no field if it is accepted."""
    lines = [line for line in TABLE.read_text("utf-8").splitlines() if line.strip() and not line.startswith("#")]
    parts = [(line.partition(": ")[0], *line.partition(": ")[2].rpartition(" ->")) for line in lines]
    return [(kind, change, fields.replace(",", " ").split()) for kind, change, _, fields in parts]


@pytest.mark.parametrize("kind", BASES)
def test_plain_objects_are_accepted(kind: str) -> None:
    assert refusals(BASES[kind]) == []


@pytest.mark.parametrize(("kind", "change", "fields"), rows())
def test_a_refused_field_is_named(kind: str, change: str, fields: list[str]) -> None:
    obj = merged(BASES[kind], yaml.safe_load(change))
    assert [field for field, _ in refusals(obj)] == fields


@pytest.fixture(name="program", scope="module")
def api_server_program() -> Path:
    """The API server's own rules: a program in Go, built once for all checkouts of a user."""
    try:
        return creating.build()
    except LackingError as error:
        pytest.skip(str(error))


def refused_by_all(program: Path, objects: list[dict[str, Any]]) -> list[bool]:
    """Whether each object is refused by every version that we support."""
    of_versions = [creating.refusals(program, objects, version) for version in creating.VERSIONS]
    return [all(said) for said in zip(*of_versions, strict=True)]


@pytest.mark.slow
def test_kubernetes_refuses_and_accepts_the_same(program: Path) -> None:
    objects = [*BASES.values(), *(merged(BASES[kind], yaml.safe_load(change)) for kind, change, _ in rows())]
    is_refused = [False] * len(BASES) + [bool(fields) for *_, fields in rows()]
    answers = zip(objects, is_refused, refused_by_all(program, objects), strict=True)
    assert not [obj for obj, ours, theirs in answers if ours != theirs]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_refused_that_kubernetes_accepts(seed: int, program: Path) -> None:
    """What we miss is known: fields that nobody gets wrong. One in twenty at most, of changes that are wilder than mistakes."""
    accepted = [merged(BASES[kind], yaml.safe_load(change)) for kind, change, fields in rows() if not fields]
    objects = list(creating.changed_at_random([*BASES.values(), *accepted], 1500, seed))
    answers = list(
        zip(objects, [bool(refusals(obj)) for obj in objects], refused_by_all(program, objects), strict=True)
    )
    assert not [obj for obj, ours, theirs in answers if ours and not theirs]
    assert sum(theirs and not ours for _, ours, theirs in answers) <= len(objects) // 20


def test_what_an_api_server_has_stored_is_not_refused() -> None:
    refused = merged(BASES["Pod"], {"spec": {"restartPolicy": "Sometimes"}})
    assert refusals(refused)
    for stored in ({"metadata": {"uid": "u"}}, {"spec": {"nodeName": "n"}}, {"status": {"phase": "Pending"}}):
        assert not refusals(merged(refused, stored))


# Nulls, which Helm writes where a value is not set.


def paths(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*at, key)
            yield from paths(part, (*at, key))


def changed(obj: dict[str, Any], path: tuple[str | int, ...], value: Any) -> tuple[dict[str, Any], Any]:
    """Return a copy with another value at a path, and what holds it there."""
    copied = deepcopy(obj)
    holder: Any = copied
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    return copied, holder


def accepted_objects() -> list[dict[str, Any]]:
    return [
        *BASES.values(),
        *(merged(BASES[kind], yaml.safe_load(change)) for kind, change, fields in rows() if not fields),
    ]


MAPS: Final = (
    *("labels", "annotations", "matchLabels", "nodeSelector", "parameters", "limits", "requests", "hard", "capacity"),
    *("min", "max", "default", "defaultRequest", "maxLimitRequestRatio", "podFixed"),
)
"""Fields whose entries are names that people choose: null is a value there, empty or zero."""


def with_nulls() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield objects with null in one field, each beside the same object without the field."""
    for obj in accepted_objects():
        for path in paths(obj):
            if path[0] in ("apiVersion", "kind") or isinstance(path[-1], int) or (len(path) > 1 and path[-2] in MAPS):
                continue
            null, _ = changed(obj, path, None)
            without, holder = changed(obj, path, None)
            del holder[path[-1]]
            yield null, without


def test_null_is_no_value() -> None:
    """A DaemonSet with `maxSurge: null` was refused, as if it were a number other than zero."""
    pairs = list(with_nulls())
    assert len(pairs) > 1000
    assert not [null for null, without in pairs if bool(refusals(null)) != bool(refusals(without))]


@pytest.mark.slow
def test_a_null_is_refused_only_where_kubernetes_refuses_it(program: Path) -> None:
    objects = [changed(obj, path, None)[0] for obj in accepted_objects() for path in paths(obj) if path[0] != "kind"]
    objects = [obj for obj in objects if obj["apiVersion"]]
    answers = zip(objects, refused_by_all(program, objects), strict=True)
    assert not [obj for obj, theirs in answers if refusals(obj) and not theirs]


# Values that no API server takes, and that Python does not even read.


DIGITS: Final = "1" * 5000
"""Python reads no number of more than 4,300 digits."""


@pytest.mark.parametrize(
    "value", [DIGITS, f"{DIGITS}%", f"{DIGITS}Gi", f"0.{DIGITS}", f"@every {DIGITS}h", "0" * 5000 + "50%"]
)
def test_any_field_may_have_thousands_of_digits(value: str) -> None:
    """The command ended with an internal error, and named no object."""
    for obj in BASES.values():
        for path in paths(obj):
            refusals(changed(obj, path, value)[0])


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        (
            "Pod",
            {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"a.b/gpu": DIGITS}}}]}},
            "",
        ),
        ("ResourceQuota", {"spec": {"hard": {"pods": DIGITS}}}, "spec.hard.pods"),
        ("LimitRange", {"spec": {"limits": [{"type": "Container", "max": {"cpu": DIGITS}}]}}, "spec.limits[0].max.cpu"),
        ("PodDisruptionBudget", {"spec": {"maxUnavailable": f"{DIGITS}%"}}, "spec.maxUnavailable"),
        ("CronJob", {"spec": {"schedule": f"{DIGITS} * * * *"}}, "spec.schedule"),
        ("Job", {"metadata": {"labels": {DIGITS: "a"}}}, f"metadata.labels.{DIGITS}"),
    ],
)
def test_thousands_of_digits_are_refused_by_name(kind: str, change: dict[str, Any], field: str) -> None:
    assert [named for named, _ in refusals(merged(BASES[kind], change))] == ([field] if field else [])


@pytest.mark.parametrize("key", [5, None, True, 1.5, ("a",)])
def test_keys_that_are_no_text_count_as_their_text(key: Any) -> None:
    """No file has them; programs that call the checks may."""
    for obj in accepted_objects():
        for path in (path for path in paths(obj) if isinstance(path[-1], str)):
            copied, holder = changed(obj, path, "1")
            holder[key] = holder[path[-1]]
            list(refusals_of(Document("a.yaml", 0, copied)))


def test_long_lists_are_looked_at_once() -> None:
    """Each entry was compared with all before it: 30,000 took a minute."""
    tolerations = [{"key": f"k{number}", "operator": "Exists"} for number in range(30_000)]
    values = [f"v{number}" for number in range(30_000)]
    runtime = merged(BASES["RuntimeClass"], {"scheduling": {"tolerations": [*tolerations, tolerations[0]]}})
    topology = [{"matchLabelExpressions": [{"key": "zone", "values": [*values, "v0"]}]}]
    storage = merged(BASES["StorageClass"], {"allowedTopologies": topology})
    for obj, field in (
        (runtime, "scheduling.tolerations[30000]"),
        (storage, "allowedTopologies[0].matchLabelExpressions[0].values[30000]"),
    ):
        check = cluster_refusals.CHECKS[obj["apiVersion"], obj["kind"]]
        assert [named for named, _ in checks.refusals(obj, check)] == [field]


# What messages say.


def container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "image": "i", **fields}]}}


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (
            "Pod",
            container(readinessProbe={"httpGet": {"port": "8080"}}),
            "'8080' is text, and a port's name needs a letter: for the number, take the quotes away",
        ),
        (
            "CronJob",
            {"spec": {"schedule": "CRON_TZ=Europe/Berlin 0 3 * * *"}},
            "cannot name a time zone: write timeZone: Europe/Berlin beside it",
        ),
        (
            "Pod",
            {"metadata": {"annotations": {"prometheus.io/port": 9090}}},
            "must be text, not 9090: put it in quotes",
        ),
        ("StorageClass", {"parameters": {"encrypted": True}}, "must be text, not true: put it in quotes"),
        (
            "Pod",
            {"metadata": {"generateName": "A"}},
            "'A' is not a DNS name: lower-case letters, digits, dashes and dots",
        ),
    ],
)
def test_a_message_says_what_to_write(kind: str, change: dict[str, Any], message: str) -> None:
    assert [said for _, said in refusals(merged(BASES[kind], change))] == [message]
    assert [said for _, said in refusals_of(Document("a.yaml", 0, merged(BASES[kind], change)))] == [message]
