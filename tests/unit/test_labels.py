"""Which labels belong to whom, and what deprecated keys stand for."""

from __future__ import annotations

import pytest

from core import labels


@pytest.mark.parametrize(
    ("key", "present"),
    [
        ("beta.kubernetes.io/arch", labels.ARCH),
        ("failure-domain.beta.kubernetes.io/zone", labels.ZONE),
        (labels.EBS_ZONE, labels.ZONE),
        ("team", "team"),
    ],
)
def test_a_deprecated_key_is_read_as_the_present_one(key: str, present: str) -> None:
    assert labels.normalized(key) == present


@pytest.mark.parametrize(
    ("key", "restricted", "kept_from_kubelets"),
    [
        ("team", False, False),
        ("karpenter.sh", False, False),
        (labels.HOSTNAME, True, True),
        (labels.ZONE, False, True),
        (labels.CAPACITY_TYPE, False, False),
        ("karpenter.sh/other", True, False),
        ("sub.karpenter.sh/other", True, False),
        ("notkarpenter.sh/other", False, False),
        ("node-role.kubernetes.io/web", False, True),
        ("node.k8s.io/a", False, True),
    ],
)
def test_domains_have_owners(key: str, restricted: bool, kept_from_kubelets: bool) -> None:
    assert labels.is_restricted(key) is restricted
    assert labels.is_kept_from_kubelets(key) is kept_from_kubelets


def test_what_only_we_write_is_taken_out() -> None:
    """Copied to another object, it would say that the object is ours."""
    own = f"{labels.OWN_PREFIX}any"
    assert labels.without_own({own: "1", "team": "a"}) == {"team": "a"}


def test_every_capacity_type_and_alias_is_known() -> None:
    assert set(labels.ALIASES.values()) <= set(labels.WELL_KNOWN)
    assert set(labels.CAPACITY_TYPES) == {labels.RESERVED, labels.SPOT, labels.ON_DEMAND}
