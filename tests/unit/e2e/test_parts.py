"""A check is skipped only if its parts cannot be had on this machine, never because of our own fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.parts import __main__ as parts
from tests.e2e.parts import builds, toolchain
from tests.e2e.parts.builds import Recipe
from tests.e2e.parts.processes import LackingError, PartError


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """`--build-only`, where each step raises the given error; nothing is built."""

    def exit_code(
        *, missing: tuple[str, ...] = (), binaries: Exception | None = None, package: Exception | None = None
    ) -> int:
        monkeypatch.setattr("sys.argv", ["parts", "--build-only"])
        monkeypatch.setattr(toolchain, "missing", lambda **_: list(missing))
        monkeypatch.setattr(builds, "unbuilt", list)
        monkeypatch.setattr(builds, "binaries", _raising(binaries))
        monkeypatch.setattr(parts, "package", _raising(package))
        return parts.main()

    return exit_code


def _raising(error: Exception | None) -> Callable[[], None]:
    def step() -> None:
        if error is not None:
            raise error

    return step


def test_all_there(run: Callable[..., int]) -> None:
    assert run() == 0


def test_unavailable_parts_are_skipped(run: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(missing=("Maven (mvn) fetches DynamoDB Local (found: none).",)) == parts.LACKING
    assert run(binaries=LackingError("etcd was not built\nno such host")) == parts.LACKING
    assert capsys.readouterr().err.splitlines()[-1] == "The real parts cannot be had here: etcd was not built"


def test_our_own_faults_fail(run: Callable[..., int]) -> None:
    """A dependency without a wheel, or a module that does not compile, passed as green."""
    assert run(package=PartError("the functions' bundle was not built: pip gave 1")) == 1
    assert run(binaries=PartError("kube-apiserver was not built: undefined: x")) == 1


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("main.go:3:2: undefined: x", PartError),
        ('go: example.com/x@v1: Get "https://proxy/x": dial tcp: lookup proxy: no such host', LackingError),
        ("Could not transfer artifact from/to central: Unknown host repo.maven.apache.org", LackingError),
        ("Could not find artifact com.example:x:jar:9 in central", PartError),
    ],
)
def test_a_failed_build_differs_from_an_unreachable_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, error: type[PartError]
) -> None:
    monkeypatch.setenv("FLEETWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    broken = Recipe("tool", tmp_path, ("sh", "-c", f"echo '{said}'; exit 1"), ())
    monkeypatch.setattr(builds, "recipes", lambda: (broken,))
    with pytest.raises(PartError) as raised:
        builds.binaries()
    assert type(raised.value) is error
