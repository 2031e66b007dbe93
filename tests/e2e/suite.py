"""The whole run, in one process or several: one report, one verdict on the ClusterRole, one clean-up."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.e2e.first_failure import FAILURES
from tests.e2e.parts.dynamodb_local import DynamoDBLocal
from tests.e2e.parts.processes import Processes

if TYPE_CHECKING:
    from xdist.remote import Producer

    from tests.e2e.report import Report


# Assigns tests to the processes of pytest-xdist.


POLLING: Final = "polling"
WORLD_OF: Final = {
    "test_outage.py": "outage",
    "test_burst.py": "burst",
    "test_groups.py": "groups",
    "test_scenarios.py": POLLING,
    "test_audit_delivery.py": POLLING,
    "test_access.py": POLLING,
    "test_bad_input.py": POLLING,
    "test_optional_settings.py": POLLING,
    "test_kueue.py": POLLING,
}
"""Which test modules play in one world, one after the other; the longest first. The others need none."""


class ByWorld(LoadScopeScheduling):
    """Gives a process all tests of a world, or of a module that needs none; a world takes half a minute to start."""

    def _split_scope(self, nodeid: str) -> str:
        module = Path(nodeid.partition("::")[0]).name
        return WORLD_OF.get(module, module)


SECONDS: Final = 2400
"""For everything, so that no job hangs: more than ten times what a quiet machine takes."""

DEFINITIONS: Final = "test_crds.py"
"""What leaves a report of its own."""

DYNAMODB: Final = "fleetwright_dynamodb"
"""Key of the address of the DynamoDB Local that all processes of pytest-xdist share, since a JVM takes seconds to start."""

SHOWN: Final = "fleetwright_e2e"
"""Under this name a process of pytest-xdist hands its worlds' reports to the one that started it."""


class Suite:
    """A plugin of pytest: gives processes what they play and share, gathers the worlds' reports, writes them to `path` as one.

    The run fails where a function was refused something, and, if all scenes ran, where the role allows what nobody needs.
    """

    def __init__(self, config: pytest.Config, path: Path) -> None:
        self._config = config
        self._path = path
        self._worlds: list[dict[str, Any]] = []
        self._modules: set[str] = set()
        self._told: list[str] = []
        self._failures: dict[str, str] = {}
        self._is_worker = hasattr(config, "workerinput")
        self._opened = ExitStack()
        self._dynamodb = ""
        if not self._is_worker:
            signal.signal(signal.SIGALRM, _too_long)
            signal.signal(signal.SIGTERM, _ended)
            signal.alarm(SECONDS)

    def hand_over(self, report: Report) -> None:
        """Take what one world of this process showed."""
        if self._is_worker:
            self._config.workeroutput.setdefault(SHOWN, []).append(report.to_builtins())  # type: ignore[attr-defined]
        else:
            self._worlds.append(report.to_builtins())

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Producer) -> LoadScopeScheduling:
        """Who shares a world is given to one process."""
        return ByWorld(config, log)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Another process is about to start: tell it what it shares."""
        if not self._dynamodb:
            processes = self._opened.enter_context(Processes(self._path.parent))
            self._dynamodb = self._opened.enter_context(DynamoDBLocal(processes)).endpoint
        node.workerinput[DYNAMODB] = self._dynamodb

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Another process has ended: take what its worlds showed."""
        self._worlds += getattr(node, "workeroutput", {}).get(SHOWN, [])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note which modules ran, and what failed."""
        self._modules.add(Path(report.location[0]).name)
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            said = crash.message if crash is not None else report.longreprtext
            self._failures[f"{report.nodeid} ({report.when})"] = said.partition("\n")[0]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Put the reports together, and judge what no single test can."""
        if self._is_worker:
            return
        signal.alarm(0)
        self._write_failures()
        if not self._worlds:
            return
        from tests.e2e.report import Report

        whole = Report.of(self._worlds)
        whole.write(self._path)
        complaints = list(whole.complaints(self._modules))
        self._told = [*whole.table().splitlines(), *complaints]
        if complaints and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self._failures |= {f"complaint {number}": text for number, text in enumerate(complaints)}
        self._write_failures()

    def _write_failures(self) -> None:
        path = self._path.with_name(FAILURES)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self._failures, indent=2))

    def pytest_unconfigure(self) -> None:
        """Stop what the processes shared once all have ended, also after a failure or Ctrl-C."""
        self._opened.close()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the scenes and what is wrong with the role."""
        if DEFINITIONS in self._modules:
            self._told += _of_definitions(self._path.with_name("e2e-crds.json"))
        if self._told:
            terminalreporter.section(f"real parts ({self._path.name})")
            terminalreporter.write_line("\n".join(self._told))


def shared_dynamodb(config: pytest.Config) -> str:
    """The address of the DynamoDB Local that the processes of this run share; empty where there is but one process."""
    return str(getattr(config, "workerinput", {}).get(DYNAMODB, ""))


def _of_definitions(report: Path) -> list[str]:
    """What the API server says otherwise than `fleetwright validate`, in figures."""
    parts = json.loads(report.read_bytes()) if report.exists() else {}
    return [
        f"{name}: {len(one['disagreements'])} of {one['objects']} objects judged otherwise"
        for name, one in parts.items()
    ]


def _ended(_number: int, _frame: FrameType | None) -> None:
    """Act as on Ctrl-C: the other processes are signalled, and stop their parts."""
    raise KeyboardInterrupt


def _too_long(_number: int, _frame: FrameType | None) -> None:
    pytest.exit(f"the suite did not end within {SECONDS} s; the parts' logs are in build/e2e", returncode=1)
