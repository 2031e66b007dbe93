"""Which node label a key probably means."""

from __future__ import annotations

import pytest

from cli.validation.label_keys import nearest_label
from core import labels


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        (labels.ZONE, ""),
        ("zone", labels.ZONE),
        ("kubernetes.io/zone", labels.ZONE),
        ("example.com/zone", ""),
        ("arch", labels.ARCH),
        ("kubernetes.io/arc", labels.ARCH),
        ("arc", ""),
        ("zne", ""),
        ("karpenter.sh/capacitytype", labels.CAPACITY_TYPE),
        ("team", ""),
    ],
)
def test_a_key_of_the_right_name_or_nearly_the_right_spelling_means_a_label(key: str, meant: str) -> None:
    assert nearest_label(key) == meant
    assert nearest_label(key, {key}) == ""
