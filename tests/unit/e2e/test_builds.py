"""Where the programs come from, without building one."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.e2e.parts import builds, toolchain
from tests.e2e.parts.builds import Recipe
from tests.e2e.parts.processes import PartError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FLEETWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path / "cache"


def recipe(tmp_path: Path, text: str = "v1") -> Recipe:
    pin = tmp_path / "go.mod"
    pin.write_text(text)
    return Recipe("tool", tmp_path, ("sh", "-c", "echo x >> {out}; echo x >> count"), (pin,))


def use(monkeypatch: pytest.MonkeyPatch, one: Recipe) -> None:
    monkeypatch.setattr(builds, "recipes", lambda: (one,))
    monkeypatch.setattr(builds, "Binaries", lambda **paths: paths)


def test_every_program_has_a_recipe() -> None:
    names = {one.name.replace("-", "_") for one in builds.recipes()}
    assert names == {field.name for field in dataclasses.fields(builds.Binaries)}


def test_a_program_is_built_once(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, recipe(tmp_path))
    assert builds.unbuilt() == ["tool"]
    assert builds.binaries() == builds.binaries()
    assert (tmp_path / "count").read_text() == "x\n"
    assert builds.unbuilt() == []


def test_another_pin_builds_again(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, raising a version in go.mod still tests the old server."""
    use(monkeypatch, recipe(tmp_path))
    first = builds.binaries()
    use(monkeypatch, recipe(tmp_path, "v2"))
    assert builds.binaries() != first


def test_existing_programs_are_used(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "etcd").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    assert set(builds.unbuilt()) == {one.name for one in builds.recipes()} - {"etcd"}


def test_a_failed_build_says_why_and_leaves_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, a partial program in the cache is taken for a complete one at the next run."""
    use(monkeypatch, Recipe("tool", tmp_path, ("sh", "-c", "touch {out}; echo no space left; exit 1")))
    with pytest.raises(PartError, match=r"tool was not built(.|\n)*no space left"):
        builds.binaries()
    assert builds.unbuilt() == ["tool"]
    assert not [path for path in cache.iterdir() if path.is_dir()]


def test_missing_tools_are_named_with_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    java, go, maven = toolchain.missing()
    assert "Java 17" in java
    assert "https://go.dev/dl" in go
    assert "apt install maven" in maven
    assert toolchain.missing(to_build=False) == [java]


def test_a_release_has_programs_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The releases share etcd and kwok; the control plane is built from the module that pins it."""
    monkeypatch.delenv(builds.RELEASE_VARIABLE, raising=False)
    usual = {one.name: one for one in builds.recipes()}
    monkeypatch.setenv(builds.RELEASE_VARIABLE, "1.31")
    older = {one.name: one for one in builds.recipes()}
    changed = {name for name in usual if usual[name].key != older[name].key}
    assert changed == {"kube-apiserver", "kube-scheduler", "kube-controller-manager"}
    assert any("gitVersion=v1.31" in word for word in older["kube-scheduler"].command)


def test_a_release_without_a_module_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(builds.RELEASE_VARIABLE, "1.37")
    newest = {one.name: one for one in builds.recipes()}
    assert newest["etcd"].folder.name == newest["kube-apiserver"].folder.name == "controlplane_1_37"
    assert any("gitVersion=v1.37.2 " in word for word in newest["kube-scheduler"].command)
    monkeypatch.setenv(builds.RELEASE_VARIABLE, "1.19")
    with pytest.raises(PartError, match=r"1\.31, 1\.35"):
        builds.recipes()
