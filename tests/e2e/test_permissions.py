"""The functions' ClusterRole allows what they ask for, and nothing that they never ask for. Comes after all other tests."""

from __future__ import annotations

import pytest

from infra import cluster_role
from tests.e2e.report import Report
from tests.e2e.world import World

NEEDED = {"test_bad_input.py", "test_optional_settings.py", "test_outage.py", "test_scenarios.py"}
"""What has to run before all that the role allows can have been asked for."""


def test_nothing_is_missing_from_the_role(world: World, report: Report) -> None:
    """If this failed, a function would be refused in every cluster that has only our role."""
    assert [str(verb) for verb in sorted(world.book_now().refused)] == []


def test_nothing_in_the_role_is_unused(world: World, report: Report, request: pytest.FixtureRequest) -> None:
    """If this failed, the functions could do what they need not."""
    if lacking := NEEDED - {item.path.name for item in request.session.items}:
        pytest.skip(f"needs {', '.join(sorted(lacking))} in the same run")
    assert [str(verb) for verb in world.book_now().unused(cluster_role.RULES)] == []
