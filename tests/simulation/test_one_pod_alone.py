"""One pod alone waits for nothing of ours: its launch is requested within two seconds of the scheduler's verdict reaching us.

Time is virtual, so the machine's load decides nothing: every call takes its recorded time, and computing takes none.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from simulator.invocation.faults import latency
from simulator.record import Event
from tests.simulation.worlds import assert_lawful, deployment, node_pool, play

CREATE_FLEET = "ec2:CreateFleet"
PODS = 6
WITHIN = timedelta(seconds=2)


def at(event: Event) -> datetime:
    return datetime.fromisoformat(event.t)


def test_the_launch_for_one_pod_alone_is_requested_within_two_seconds(tmp_path: Path) -> None:
    """Pods come a minute and some seconds apart, at different moments of the schedule's minute, each for a node of its own."""
    steps = [{"at": f"{67 * n}s", "apply": [deployment(1, f"alone-{n}", cpu="15")]} for n in range(2, 2 + PODS)]
    result = play(tmp_path, node_pool(), steps=steps, duration="10m")
    created = [at(e) for e in result.events if e.event == "podCreated"]
    heard = [at(e) for e in result.events if e.event == "invocation" and e.fields["function"] == "watch_audit_log"]
    answered = [at(e) for e in result.events if e.event == "call" and e.fields["call"] == CREATE_FLEET]
    assert len(created) == len(answered) == PODS
    for pod, answer in zip(created, answered, strict=True):
        news = min(moment for moment in heard if moment > pod)
        assert answer - latency(CREATE_FLEET) - news <= WITHIN
    assert result.summary["podsScheduled"] == PODS
    assert_lawful(result)
