"""Every started process is stopped, whatever happens in between."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.e2e.parts.processes import PartError, Processes, answers, free_ports

ROOT = Path(__file__).parents[3]
SLEEPER = (sys.executable, "-S", "-c", "import time; time.sleep(60)")
STUBBORN = (
    sys.executable,
    "-S",
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)",
)


def is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def until_gone(pid: int, seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while is_alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not is_alive(pid)


def test_the_end_of_the_block_stops_every_part(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        parts = [processes.start(f"sleeper-{n}", SLEEPER) for n in range(2)]
        assert all(part.is_running for part in parts)
    assert not any(is_alive(part.pid) for part in parts)


def test_a_failure_inside_the_block_stops_every_part(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Processes(tmp_path) as processes:
        part = processes.start("sleeper", SLEEPER)
        raise ZeroDivisionError
    assert not is_alive(part.pid)


def test_children_of_a_part_are_stopped_with_it(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        part = processes.start("shell", ["sh", "-c", "sleep 60 & echo $!; wait"])
        while not (said := part.log.read_text()).strip():
            time.sleep(0.01)
    assert until_gone(int(said))


def test_a_part_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        part = processes.start("stubborn", STUBBORN, ready=lambda: "up" in (tmp_path / "stubborn.log").read_text())
        processes.stop(part, seconds=0.1)
        assert part.exit_code == -signal.SIGKILL


def test_a_part_that_ends_early_is_named_with_its_log(tmp_path: Path) -> None:
    with (
        Processes(tmp_path) as processes,
        pytest.raises(PartError, match=r"(?s)broken ended with 3 .*broken\.log.*no such flag"),
    ):
        processes.start("broken", ["sh", "-c", "echo no such flag; exit 3"], ready=lambda: False)


def test_a_part_that_never_gets_ready_is_stopped_and_named(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        with pytest.raises(PartError, match=r"sleeper was not ready after 0\.1 s"):
            processes.start("sleeper", SLEEPER, ready=lambda: False, seconds=0.1)
        assert not processes.running


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_test_run_stops_the_parts_too(number: signal.Signals, tmp_path: Path) -> None:
    """Examples: Ctrl-C, a cancelled CI job, a killed one."""
    program = f"""
        import sys, time
        from pathlib import Path
        from tests.e2e.parts.processes import Processes
        with Processes(Path({str(tmp_path)!r})) as processes:
            print(processes.start("sleeper", {SLEEPER!r}).pid, flush=True)
            time.sleep(60)
    """
    run = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert run.stdout is not None
    pid = int(run.stdout.readline())
    assert is_alive(pid)
    os.kill(run.pid, number)
    run.wait(10)
    run.stdout.close()
    assert until_gone(pid)


def test_free_ports_are_distinct_and_free() -> None:
    ports = free_ports(5)
    assert len(set(ports)) == 5
    assert not any(answers(port)() for port in ports)
