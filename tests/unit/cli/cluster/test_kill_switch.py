"""The account of a kill switch is in the ARN of its parameter."""

from __future__ import annotations

import pytest

from cli.cluster.kill_switch import _account


@pytest.mark.parametrize(
    ("entry", "account"),
    [
        ({"ARN": "arn:aws:ssm:eu-west-1:123456789012:parameter/x"}, "123456789012"),
        ({"ARN": "arn:aws:ssm:eu-west-1:123456789012"}, "123456789012"),
        ({"ARN": "arn:aws:ssm:eu-west-1"}, ""),
        ({}, ""),
    ],
)
def test_the_account_is_the_fifth_part_of_an_arn(entry: dict[str, str], account: str) -> None:
    assert _account(entry) == account
