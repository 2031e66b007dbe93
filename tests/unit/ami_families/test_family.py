"""Rules for the user data of every family."""

from __future__ import annotations

import pytest

from core.ami_families.custom import CUSTOM
from core.ami_families.family import USER_DATA_BYTES_MAX
from core.errors import InvalidInputError
from tests.unit.ami_families.nodes import (
    changed,
)


def test_user_data_that_ec2_would_refuse_is_refused_early() -> None:
    """EC2's message does not name the object; ours does."""
    with pytest.raises(InvalidInputError, match=str(USER_DATA_BYTES_MAX)):
        CUSTOM.user_data(changed(user_data="x" * (USER_DATA_BYTES_MAX + 1)))
    text = "x" * USER_DATA_BYTES_MAX
    assert CUSTOM.user_data(changed(user_data=text)) == text
