"""What a node of a user's own image reads when it starts."""

from __future__ import annotations

from core.ami_families.custom import CUSTOM
from tests.unit.ami_families.nodes import (
    changed,
)


def test_custom_user_data_is_left_alone() -> None:
    """Custom images are bootstrapped by the user alone."""
    assert CUSTOM.user_data(changed(user_data="anything")) == "anything"
