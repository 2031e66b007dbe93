"""Taints and tolerations."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.model.values.taints import (
    NO_EXECUTE,
    NO_SCHEDULE,
    Taint,
    Toleration,
    first_untolerated,
    is_ephemeral,
    is_protected,
    protected_until,
)
from tests.builders import NOW

# The annotation that protects a node or pod from disruption.


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "age", "holds"),
    [
        (None, HOUR, False),
        ("true", 1000 * HOUR, True),
        ("4h", 4 * HOUR - timedelta(seconds=1), True),
        ("4h", 4 * HOUR, False),
        ("4h", None, True),
        ("0s", timedelta(0), False),
        ("-1h", timedelta(0), False),
        ("false", HOUR, False),
        ("True", HOUR, False),
        ("soon", HOUR, False),
    ],
)
def test_only_true_and_a_positive_duration_protect(text: str | None, age: timedelta | None, holds: bool) -> None:
    assert is_protected(text, NOW - age if age is not None else None, NOW) is holds


def test_the_end_of_a_duration_is_known() -> None:
    """Otherwise, a resync period continues although the passing of time allows the node to go."""
    assert protected_until("90m", NOW) == NOW + 1.5 * HOUR
    assert protected_until("true", NOW) is None
    assert protected_until("90m", None) is None
    assert protected_until(None, NOW) is None


GPU = Taint("gpu", NO_SCHEDULE, "a100")


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        (Toleration("gpu", "Equal", "a100"), True),
        (Toleration("gpu", "Equal", "t4"), False),
        (Toleration("gpu", "Exists"), True),
        (Toleration("", "Exists"), True),
        (Toleration("", "Equal"), False),
        (Toleration("gpu", "Exists", effect=NO_EXECUTE), False),
        (Toleration("gpu", "Gt", "1"), False),
        (Toleration("gpu", "Gt", "a100"), False),
        (Toleration("team", "Equal", "a100"), False),
        (Toleration("team", "Exists"), False),
        (Toleration("gpu", "Exists", effect=NO_SCHEDULE), True),
        (Toleration("gpu", "Equal", "a100", NO_SCHEDULE), True),
        (Toleration("gpu", "Equal", "a100", NO_EXECUTE), False),
    ],
)
def test_taints_that_a_toleration_matches(toleration: Toleration, covers: bool) -> None:
    assert toleration.tolerates(GPU) is covers


def test_the_first_untolerated_taint_is_named() -> None:
    other = Taint("team", NO_SCHEDULE)
    assert first_untolerated((GPU, other), (Toleration("gpu", "Exists"),)) == other
    assert first_untolerated((GPU,), (Toleration("", "Exists"),)) is None
    assert (str(GPU), str(other)) == ("gpu=a100:NoSchedule", "team:NoSchedule")


def test_taints_of_a_booting_node_are_ignored() -> None:
    assert is_ephemeral(Taint("node.kubernetes.io/not-ready", NO_EXECUTE))
    assert is_ephemeral(Taint("readiness.k8s.io/network", NO_SCHEDULE))
    assert not is_ephemeral(GPU)


def test_taints_are_in_the_order_of_key_effect_and_value() -> None:
    """Equal nodes then have equal texts."""
    first, second = Taint("a", "NoExecute", "z"), Taint("a", "NoSchedule", "a")
    third, last = Taint("a", "NoSchedule", "b"), Taint("b", "A")
    assert sorted([last, third, second, first]) == [first, second, third, last]


def test_a_taint_is_written_as_kubernetes_writes_it() -> None:
    assert GPU.written() == {"key": "gpu", "effect": NO_SCHEDULE, "value": "a100"}
    assert Taint("a", NO_EXECUTE).written() == {"key": "a", "effect": NO_EXECUTE}
    assert GPU.matches(Taint("gpu", NO_SCHEDULE, "other"))
    assert not GPU.matches(Taint("gpu", NO_EXECUTE, "a100"))


def test_taints_that_only_say_that_a_node_is_not_ready_yet() -> None:
    """Karpenter's list; one of another effect is a reason to stay away."""
    ephemeral = [
        ("node.kubernetes.io/not-ready", NO_SCHEDULE),
        ("node.kubernetes.io/not-ready", NO_EXECUTE),
        ("node.kubernetes.io/unreachable", NO_SCHEDULE),
        ("node.cloudprovider.kubernetes.io/uninitialized", NO_SCHEDULE),
        ("karpenter.sh/unregistered", NO_EXECUTE),
        ("karpenter.sh/unregistered", NO_SCHEDULE),
    ]
    assert all(is_ephemeral(Taint(key, effect)) for key, effect in ephemeral)
    lasting = [("node.kubernetes.io/unreachable", NO_EXECUTE), ("karpenter.sh/disrupted", NO_SCHEDULE)]
    assert not any(is_ephemeral(Taint(key, effect)) for key, effect in lasting)
