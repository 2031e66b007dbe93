"""What an installation says in its context."""

from __future__ import annotations

import pytest

from infra.config import ClusterConfig


@pytest.mark.parametrize(
    ("given", "nominates"), [(None, True), (True, True), ("true", True), (False, False), ("false", False)]
)
def test_nominations_can_be_turned_off_in_the_file_and_on_the_command_line(given: str | None, nominates: bool) -> None:
    """Else who takes the rule for pods' status out of the ClusterRole gets a refused call for every pod."""
    config = ClusterConfig.from_context({"nominatePods": given}.get, account=None, region=None)
    assert config.nominate_pods == nominates
