"""Lambda on this machine does to a function what Lambda does."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from installation.wiring import FUNCTIONS, FunctionSpec
from tests.e2e.functions.account import Functions
from tests.e2e.functions.package import Package, package
from tests.e2e.functions.sandbox import CRASH, ERROR, OK, OUT_OF_MEMORY, TIMEOUT, Sandbox
from tests.e2e.parts.admin import until
from tests.e2e.parts.processes import Processes

PROBE = """
import os, time
calls = 0
held = []
def handler(event, context):
    global calls
    calls += 1
    if event.get("raise"):
        raise ValueError(event["raise"])
    if event.get("exit"):
        os._exit(3)
    if event.get("fill"):
        held.append(bytearray(os.urandom(1024) * 1024 * event["fill"]))
    if event.get("say"):
        open(event["say"], "w").close()
    time.sleep(event.get("sleep", 0))
    while event.get("until") and not os.path.exists(event["until"]):
        time.sleep(0.05)
    left = context.get_remaining_time_in_millis()
    return {"calls": calls, "id": context.aws_request_id, "arn": context.invoked_function_arn, "left": left,
            "memory": context.memory_limit_in_mb, "mark": os.environ.get("MARK")}
"""
SPEC = FunctionSpec(name="probe", timeout=timedelta(seconds=60), memory_mb=128, concurrency=1)
SHORT = FunctionSpec(name="probe", timeout=timedelta(seconds=2), memory_mb=128, concurrency=1)
FOR_EVER = 600
SLACK = 6
"""For a machine that takes a minute to start a process."""

SECONDS = 60.0


@pytest.fixture
def task(tmp_path: Path) -> Package:
    """A bundle with one handler that does what its event says."""
    folder = tmp_path / "task" / "lambdas" / "handlers"
    folder.mkdir(parents=True)
    (folder / "probe.py").write_text(PROBE)
    return Package(solver=tmp_path / "task", base=tmp_path / "task", runtime=package().runtime)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    """Processes that end with the test."""
    with Processes(tmp_path / "logs") as started:
        yield started


@pytest.fixture
def sandbox(task: Package, processes: Processes) -> Iterator[Sandbox]:
    """A fresh sandbox of the probe."""
    one = Sandbox(SPEC, task, {"MARK": "here"}, processes, slack=SLACK)
    yield one
    one.kill()


def test_a_sandbox_is_used_again(sandbox: Sandbox) -> None:
    """If this failed, what functions keep between invocations would never be tested, and each would be a cold start."""
    first, second = sandbox.run({}, "t"), sandbox.run({}, "t")
    assert (first.outcome, second.outcome) == (OK, OK)
    assert (first.response["calls"], second.response["calls"]) == (1, 2)
    assert first.init_ms > 0
    assert second.init_ms == 0
    assert first.response["id"] == first.request_id
    assert first.response["mark"] == "here"
    assert first.response["arn"].endswith(":function:probe")
    assert 0 < first.response["left"] <= 60_000
    assert first.memory_kb > 5_000
    assert first.billed_ms >= first.init_ms


def test_an_error_leaves_the_sandbox(sandbox: Sandbox) -> None:
    """If this failed, an exception would look like a crash, and the state that the next invocation meets would be lost."""
    failed, next_one = sandbox.run({"raise": "no"}, "t"), sandbox.run({}, "t")
    assert (failed.outcome, failed.response["errorType"]) == (ERROR, "ValueError")
    assert (next_one.outcome, next_one.response["calls"]) == (OK, 2)


@pytest.mark.parametrize(("event", "outcome"), [({"exit": 1}, CRASH), ({"fill": 200}, OUT_OF_MEMORY)])
def test_what_ends_a_sandbox(sandbox: Sandbox, event: dict[str, int], outcome: str) -> None:
    """If this failed, a function could go on after a crash, or take more memory here than Lambda would give it."""
    assert sandbox.run(event, "t").outcome == outcome
    assert not sandbox.is_alive


def test_a_time_out_ends_a_sandbox(task: Package, processes: Processes) -> None:
    """If this failed, a function could run past its time-out here, which Lambda would not let it."""
    sandbox, began = Sandbox(SHORT, task, {}, processes), time.monotonic()
    assert sandbox.run({"sleep": FOR_EVER}, "t").outcome == TIMEOUT
    assert time.monotonic() - began < FOR_EVER
    assert not sandbox.is_alive


def test_no_more_run_at_once_than_reserved(task: Package, processes: Processes, tmp_path: Path) -> None:
    """If this failed, two `disrupt` could run at once here, and none of its races would be the deployed ones."""
    functions, said, go = Functions(task, lambda _: {}, processes, slack=SLACK), tmp_path / "said", tmp_path / "go"
    functions._room["probe"] = threading.Semaphore(1)
    first = {"say": str(said), "until": str(go)}
    running = threading.Thread(target=functions.invoke, args=(SPEC, first, "t"), daemon=True)
    running.start()
    until(said.exists, seconds=SECONDS, what="the first runs")
    assert functions.try_invoke(SPEC, {}, "t") is None
    go.touch()
    assert functions.invoke(SPEC, {}, "t").response["calls"] == 2
    running.join()
    functions.close()


def test_a_killed_function_is_a_crash_and_the_next_runs(task: Package, processes: Processes, tmp_path: Path) -> None:
    """If this failed, a function killed in the middle of its work could not be played."""
    functions, said = Functions(task, lambda _: {}, processes, slack=SLACK), tmp_path / "said"
    functions._room["probe"] = threading.Semaphore(1)

    def kill() -> None:
        until(said.exists, seconds=SECONDS, what="the function runs")
        functions.kill(SPEC)

    killing = threading.Thread(target=kill, daemon=True)
    killing.start()
    assert functions.invoke(SPEC, {"say": str(said), "sleep": FOR_EVER}, "t").outcome == CRASH
    killing.join()
    assert functions.invoke(SPEC, {}, "t").response["calls"] == 1
    functions.close()


def test_the_bundle_starts_without_what_is_only_on_this_machine(processes: Processes) -> None:
    """If this failed, the deployed bundle would lack a module that the virtual environment has."""
    for spec in FUNCTIONS:
        sandbox = Sandbox(spec, package(), {"POWERTOOLS_SERVICE_NAME": "e2e"}, processes, slack=SLACK)
        found = sandbox.run({}, "t")
        sandbox.kill()
        assert found.outcome == ERROR
        assert (found.response["errorType"], "is not set" in found.response["errorMessage"]) == (
            "InvalidInputError",
            True,
        )
