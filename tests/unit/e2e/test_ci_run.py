"""What decides whether a change may land: `.ci/run` is played with programs that only say how they end."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

SCRIPT: Final = Path(__file__).parents[3] / ".ci" / "run"
LATE: Final = '{"a": "TimeoutError: 12 pods wait after 300 s"}'
BROKEN: Final = '{"a": "AssertionError: claim a has 2 instances"}'
PYTHON: Final = """#!/bin/sh
case "$*" in
*first_failure*) cd "{real}" && exec "{python}" -c '
import sys, pathlib
from tests.e2e import first_failure
first_failure.BUILD = pathlib.Path(sys.argv[1])
sys.exit(first_failure.main())' "{build}" ;;
*--built*) echo "The real parts cannot be had here: because." >&2; exit {parts} ;;
esac
"""
MAKE: Final = """#!/bin/sh
echo "$*" >> "{asked}"
case "$*" in
e2e-smoke)
  [ "$(grep -c '^e2e-smoke$' "{asked}")" = 1 ] || exit {second}
  mkdir -p build/e2e && echo doubled > build/e2e/execute.log
  [ {first} = 0 ] || echo '{failures}' > build/e2e-failures.json
  exit {first} ;;
"{broken}"|"{broken} "*) exit 1 ;;
esac
"""


class Ci:
    """A clone in which `make` and Python end as they are told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked = folder / "asked"
        (folder / ".ci").mkdir()
        (folder / ".ci" / "run").write_text(SCRIPT.read_text())
        (folder / "bin").mkdir()
        (folder / ".venv" / "bin").mkdir(parents=True)

    def run(
        self, *, parts: int = 0, first: int = 0, second: int = 0, failures: str = LATE, broken: str = "none"
    ) -> subprocess.CompletedProcess[str]:
        """Play it where the parts' build, both runs of the suite and one of the targets end like this."""
        names = {"parts": parts, "first": first, "second": second, "failures": failures, "broken": broken}
        paths = {
            "asked": self.asked,
            "build": self.folder / "build",
            "real": SCRIPT.parents[1],
            "python": sys.executable,
        }
        for name, text in (("bin/make", MAKE), (".venv/bin/python", PYTHON)):
            path = self.folder / name
            path.write_text(text.format_map({**names, **paths}))
            path.chmod(0o755)
        environment = {"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", "HOME": str(self.folder)}
        return subprocess.run(
            ["/bin/bash", str(self.folder / ".ci" / "run")],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def runs_of_real_parts(self) -> int:
        """How often the suite was asked for."""
        return self.asked.read_text().splitlines().count("e2e-smoke")


@pytest.fixture
def ci(tmp_path: Path) -> Ci:
    return Ci(tmp_path)


def test_a_run_without_failures_is_green(ci: Ci) -> None:
    ended = ci.run()
    assert (ended.returncode, ci.runs_of_real_parts()) == (0, 1), ended.stderr


@pytest.mark.parametrize("target", ["setup", "--jobs", "test-all", "test-lambda-python", "sim", "replay"])
def test_a_broken_target_fails_the_run(ci: Ci, target: str) -> None:
    ended = ci.run(broken=target)
    assert ended.returncode != 0
    assert ci.runs_of_real_parts() == 0


def test_parts_that_cannot_be_had_are_left_out_aloud(ci: Ci) -> None:
    ended = ci.run(parts=2)
    assert (ended.returncode, ci.runs_of_real_parts()) == (0, 0), ended.stderr
    (said,) = (line for line in ended.stdout.splitlines() if line.startswith("make e2e-smoke was left out."))
    assert "The real parts cannot be had here" in said


def test_the_seconds_of_each_step_are_printed_also_where_one_fails(ci: Ci) -> None:
    for ended in (ci.run(), ci.run(broken="sim")):
        assert re.findall(r"^ci: +\d+ s  make (\w+)", ended.stdout, re.MULTILINE)[0] == "setup"
        assert re.search(r"^ci: +\d+ s  make sim", ended.stdout, re.MULTILINE)


def test_a_build_that_fails_by_our_own_fault_fails_the_run(ci: Ci) -> None:
    """A dependency without a wheel left the real parts out, and the change landed."""
    ended = ci.run(parts=1)
    assert (ended.returncode, ci.runs_of_real_parts()) == (1, 0)


@pytest.mark.parametrize(
    ("failures", "second", "status", "runs"),
    [(LATE, 0, 0, 2), (LATE, 1, 1, 2), (BROKEN, 0, 1, 1), ("", 0, 1, 1)],
    ids=["late once", "late twice", "a broken law", "no word"],
)
def test_only_time_outs_are_tried_again(ci: Ci, failures: str, second: int, status: int, runs: int) -> None:
    """A race of 30 % lands with 91 % where any failure is tried again."""
    ended = ci.run(first=1, second=second, failures=failures or "{}")
    assert (ended.returncode, ci.runs_of_real_parts()) == (status, runs), ended.stdout
    assert (ci.folder / "build" / "e2e.first" / "e2e" / "execute.log").read_text() == "doubled\n"
