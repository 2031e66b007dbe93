"""The cluster that most tests of the controllers begin with."""

from __future__ import annotations

import pytest

from tests.fakes.lab import Lab, a_pending_pod


@pytest.fixture
def lab() -> Lab:
    """One node with one pod on it."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    return lab
