"""`fleetwright crds`: the definitions that users pipe into kubectl."""

from __future__ import annotations

import pytest
import yaml

from cli.__main__ import main
from core.api.crds import definitions


def test_every_definition_is_one_document_without_anchors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds"]) == 0
    text = capsys.readouterr().out
    assert list(yaml.safe_load_all(text)) == list(definitions())
    assert "&id" not in text
