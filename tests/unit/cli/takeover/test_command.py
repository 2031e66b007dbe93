"""`adopt` and `release`: nodes of the named installation change hands with `--yes`; the exit code says what remains."""

from __future__ import annotations

import json

import pytest

from adapters.ports import JsonObject
from cli.__main__ import main
from tests.unit.cli.simulated_installation import OF_PROD, SimulatedInstallation

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> SimulatedInstallation:
    return SimulatedInstallation(monkeypatch)


def answered(capsys: Capture, *words: str) -> tuple[int, JsonObject]:
    code = main([*words, *OF_PROD, "-o", "json"])
    told = capsys.readouterr()
    assert told.out, told.err
    return code, json.loads(told.out)


def test_a_node_goes_to_karpenter_and_comes_back_with_yes_alone(site: SimulatedInstallation, capsys: Capture) -> None:
    for name, before, done, owners in (
        ("release", "releasable", "released", (["ours"], ["Karpenter's"])),
        ("adopt", "adoptable", "adopted", (["Karpenter's"], ["ours"])),
    ):
        for more, state, owner in (((), before, owners[0]), (("--yes",), done, owners[1])):
            code, found = answered(capsys, name, *more)
            assert (code, [item["state"] for item in found["items"]], site.owners()) == (0, [state], owner), found


@pytest.mark.parametrize("name", ["adopt", "release"])
def test_what_is_in_the_way_makes_the_exit_code_negative(
    name: str, site: SimulatedInstallation, capsys: Capture
) -> None:
    site.switch = "run"
    code, found = answered(capsys, name, "--yes")
    assert (code, site.owners()) == (1, ["ours"])
    assert "pause --cluster test --everything" in found["hindrances"][0]


def test_each_form_shows_the_nodes_of_its_direction(site: SimulatedInstallation, capsys: Capture) -> None:
    """A table says what to run next, and only the wide one has instances."""
    (claim,) = site.lab.claims
    for name in ("release", "adopt"):
        seen = {}
        for form in ("table", "wide", "name"):
            assert main([name, *OF_PROD, "-o", form]) == 0
            seen[form] = capsys.readouterr().out
        assert seen["name"] == f"nodeclaim/{claim.name}\n"
        assert ("INSTANCE" in seen["table"], "INSTANCE" in seen["wide"]) == (False, True)
        for form in ("table", "wide"):
            assert f"`fleetwright {name} --cluster test --yes`" in " ".join(seen[form].split())
        assert main(["release", *OF_PROD, "--yes"]) == 0


@pytest.mark.parametrize("name", ["adopt", "release"])
def test_another_installation_is_not_touched(name: str, site: SimulatedInstallation) -> None:
    for number in range(1, len(OF_PROD), 2):
        assert main([name, *OF_PROD[:number], "another", *OF_PROD[number + 1 :], "--yes"]) == 2
    assert main([name]) == 2
    assert site.owners() == ["ours"]
