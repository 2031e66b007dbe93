"""Values with the same content are one object, in bounded memory."""

from __future__ import annotations

from core.manifests.wire.sharing import SHARED_MAX, shared


def test_equal_values_are_one_object() -> None:
    first = shared({"app": "web"})
    assert shared({"app": "web"}) is first


def test_values_of_different_types_stay_apart() -> None:
    """Otherwise, a tuple would become a list with the same content."""
    assert shared(["app"]) == ["app"]
    assert shared(("app",)) == ("app",)


def test_what_is_kept_is_bounded() -> None:
    """Otherwise, a sandbox that observes many clusters in turn would run out of memory."""
    first = {"kept": "first"}
    shared(first)
    for number in range(SHARED_MAX):
        shared({"kept": str(number)})
    assert shared({"kept": "first"}) is not first
