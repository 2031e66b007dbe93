"""Clusters are looked for in every region and account, and what cannot be asked is told."""

from __future__ import annotations

from typing import Any

import pytest

import cli.cluster.installation
from cli.__main__ import main

COMMANDS = (("status", "--all"), ("log", "--all"), ("pause", "--all"), ("resume", "--all"))


class Denied:
    """A session whose every call is refused."""

    region_name = "us-east-1"

    def client(self, service: str) -> Any:
        from botocore.exceptions import NoCredentialsError

        raise NoCredentialsError


@pytest.mark.parametrize("command", COMMANDS)
def test_nobody_is_told_that_there_is_no_cluster_where_nothing_could_be_asked(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said `there is no cluster with an installation`, and each hint twice."""
    monkeypatch.setattr(cli.cluster.installation, "_session", lambda *_: Denied())
    assert main([*command, "--region", "us-east-1"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("fleetwright: no cluster could be found:\nus-east-1 cannot be read: ")
    assert "Unable to locate credentials" in said
    assert said.count("hint: ") == 1
