"""A node is found by what a table shows of its name."""

from __future__ import annotations

import pytest

from core.model.values.node_name import names_node

NODE = "ip-10-0-0-4.ec2.internal"


@pytest.mark.parametrize(
    ("text", "is_meant"),
    [
        (NODE, True),
        ("ip-10-0-0-4", True),
        ("ip-10-0-0-4.ec2", True),
        ("ip-10-0-0", False),
        ("ip-10-0-0-4.", False),
        ("", False),
    ],
)
def test_a_name_may_lack_its_domain(text: str, is_meant: bool) -> None:
    """`ip-10-0-0` begins other names, too."""
    assert names_node(text, NODE) is is_meant
