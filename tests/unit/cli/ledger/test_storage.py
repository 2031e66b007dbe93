"""A ledger in a folder holds what is in it, whoever wrote it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.ledger.storage import FolderLedger
from core.errors import InvalidInputError
from core.ledger.object_keys import base_key


@pytest.mark.parametrize("digest", ["../../../secret", "../../../../dev/zero"])
def test_an_entry_names_no_file_outside(digest: str, tmp_path: Path) -> None:
    """The header of a decision names the document that it is kept against."""
    (tmp_path / "secret").write_text("x")
    (tmp_path / "ledger").mkdir()
    with pytest.raises(InvalidInputError, match="outside of the ledger"):
        FolderLedger(tmp_path / "ledger").get(base_key("prod", digest))


def test_objects_are_listed_and_read(tmp_path: Path) -> None:
    (tmp_path / "bases" / "prod").mkdir(parents=True)
    (tmp_path / "bases" / "prod" / "a..b").write_bytes(b"1")
    ledger = FolderLedger(tmp_path)
    assert ledger.keys("bases/prod/") == ["bases/prod/a..b"]
    assert ledger.get("bases/prod/a..b") == b"1"
