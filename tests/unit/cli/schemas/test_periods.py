"""Each output conforms to its published schema."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import msgspec
import pytest

from cli.__main__ import main
from cli.schemas.periods import ANSWERS, schema


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("plan", ()),
        ("consolidate", ()),
        ("explain", ("shop/huge",)),
        ("explain", ("old",)),
        ("validate", ()),
        ("diff", ()),
        ("status", ()),
    ],
)
def test_an_output_conforms_to_its_schema(
    command: str, more: Sequence[str], cluster: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A renamed field breaks programs that we do not know."""
    given = [command, *more, *cluster, "-o", "json"]
    if command == "diff":
        given = ["diff", "--from", cluster[1], "--to", cluster[1], *cluster[2:], "-o", "json"]
    if command == "validate":
        given = ["validate", *cluster[:4], "-o", "json"]
    assert main(given) in (0, 1)
    msgspec.json.decode(capsys.readouterr().out, type=ANSWERS[command])


def test_a_missing_field_is_reported() -> None:
    with pytest.raises(msgspec.ValidationError, match="missing required field `now`"):
        msgspec.convert({"apiVersion": "fleetwright.dev/v1", "kind": "Plan"}, ANSWERS["plan"])


@pytest.mark.parametrize("command", sorted(ANSWERS))
def test_descriptions_have_no_indentation(command: str) -> None:
    """Python 3.13 drops that of docstrings and 3.11 keeps it: the published schemas would be up to date on one of them."""
    descriptions = re.findall(r'"description": "(.*?)"', json.dumps(schema(command)))
    assert not [text for text in descriptions if "\\n " in text]
