"""What one release keeps for another: the later one reads what the earlier one wrote, and after a roll-back the reverse.

During an update both work at once. `rows/RELEASE.json` has bodies that this release wrote, with every field that it knows. A
later release adds a file and leaves the earlier ones unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec
import pytest

from adapters.aws.dynamodb.launch_memory import PARTITION, DynamoOfferings
from core.model.catalogue import OfferingKey
from core.version import VERSION
from tests.builders import NOW
from tests.contract.stored_bodies import ROWS, TYPES, body_of, with_news
from tests.infra.conftest import ROOT

BODIES: Final = [
    pytest.param(TYPES[name], body, id=f"{path.stem}-{name}-{number}")
    for path in sorted(ROWS.glob("*.json"))
    for name, bodies in json.loads(path.read_text(encoding="utf-8")).items()
    for number, body in enumerate(bodies)
]
COMPLETE: Final = [pytest.param(type_, body_of(type_), id=f"now-{name}") for name, type_ in TYPES.items()]

DECODED: Final = (
    r"(?:Record|Sharded)Items\([^\n]*, ([A-Z]\w+)[,)]",
    r"_of\(rows, \w+, (\w+)\)",
    r"_decoded\(item, ([A-Z]\w+)\)",
    r"\.decode\([^\n]*type=(?:dict\[str, )?(?!Annotated)([A-Z]\w+)",
)
"""How adapters and messages name the type of what they read."""


@pytest.mark.parametrize(("type_", "body"), [*BODIES, *COMPLETE])
def test_a_row_of_an_earlier_release_is_read_without_loss(type_: type[Any], body: dict[str, Any]) -> None:
    """Otherwise, an update ends nodes whose claims it cannot read, or forgets when they are to go."""
    record = msgspec.json.decode(json.dumps(body), type=type_)
    assert lost(body, json.loads(msgspec.json.encode(record))) == []


@pytest.mark.parametrize(("type_", "body"), [*BODIES, *COMPLETE])
def test_a_row_of_a_later_release_is_read_after_a_roll_back(type_: type[Any], body: dict[str, Any]) -> None:
    """A later release writes fields that this one does not know: it must ignore them, at every depth."""
    newer = with_news(body, type_)
    assert newer != body
    assert msgspec.json.decode(json.dumps(newer), type=type_) == msgspec.json.decode(json.dumps(body), type=type_)


@pytest.mark.parametrize("type_", TYPES.values())
def test_a_row_without_newer_fields_is_read(type_: type[Any]) -> None:
    """New fields have a default, because older rows lack them."""
    required = {field.name for field in msgspec.structs.fields(type_) if field.required}
    bodies = [body for path in ROWS.glob("*.json") for body in json.loads(path.read_text()).get(type_.__name__, ())]
    assert bodies
    for body in bodies:
        msgspec.json.decode(json.dumps({k: v for k, v in body.items() if k in required}), type=type_)


def test_this_release_has_its_rows() -> None:
    """Otherwise, the next one would be tested against nothing."""
    path = ROWS / f"{VERSION}.json"
    assert path.exists(), "python -m tests.contract.stored_bodies"
    assert set(TYPES) <= set(json.loads(path.read_text(encoding="utf-8")))


def test_every_stored_type_is_among_them() -> None:
    """A type that adapters read and nobody lists here could lose a field in any release."""
    aws = ROOT / "adapters" / "aws"
    paths = [*(aws / "dynamodb").rglob("*.py"), aws / "brakes.py", aws / "market.py"]
    paths.append(ROOT / "adapters" / "messages.py")
    source = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    named = {name for pattern in DECODED for name in re.findall(pattern, source)}
    assert {"ClaimRecord", "Rollout", "Breaker", "SweepState", "MarketFacts", "WorkItem"} <= named
    assert named <= set(TYPES)


UNTIL: Final = str(int((NOW + timedelta(minutes=3)).timestamp()))


class OfferingRows:
    """The table, with rows of refusals that another release wrote."""

    def __init__(self, *sorts: str) -> None:
        self._items = [
            {"pk": {"S": PARTITION}, "sk": {"S": sort}, "until": {"N": UNTIL}, "news": {"S": "of tomorrow"}}
            for sort in sorts
        ]

    def query(self, _: str) -> list[dict[str, Any]]:
        return self._items

    def leave_out(self, partition: str, problems: Mapping[str, str]) -> None:
        self.unreadable = {partition: problems}


def test_refusals_of_a_later_release_do_not_hide_those_that_are_known() -> None:
    """Their keys have had a fourth part since reservations; the next part must not stop every look of the release before."""
    table: Any = OfferingRows("m5.large#a#spot", "m5.large#a#reserved#cr-1", "m5.large#a#spot#cr-1#tomorrow")
    assert DynamoOfferings(table).refused(NOW).avoided == {
        OfferingKey("m5.large", "a", "spot"),
        OfferingKey("m5.large", "a", "reserved", "cr-1"),
    }


def lost(before: Any, after: Any, path: str = "$") -> list[str]:
    """Fields of `before` that are missing or different in `after`; a default may be missing, and a tuple may have grown."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            path_lost
            for key, value in before.items()
            if value not in (None, "", [], {}, False, 0) or key in after
            for path_lost in lost(value, after.get(key), f"{path}.{key}")
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) <= len(after):
        return [path_lost for n, value in enumerate(before) for path_lost in lost(value, after[n], f"{path}[{n}]")]
    return [] if before == after else [f"{path}: {before} is {after}"]
