"""What the embedded account answers has the shape that botocore describes: no unknown member, none missing, the right types."""

from datetime import timedelta
from typing import Any

import pytest
from botocore.validate import ParamValidator

from simulator.aws.queues import AwsError
from simulator.aws.session import service_model
from simulator.campaign.worlds import draw_world
from simulator.clock import VirtualClock
from simulator.invocation.faults import Call
from simulator.record import Recorder
from simulator.world import QUICK, open_world, seeded

AFTER_STEPS = timedelta(minutes=10)
QUICK_WORLDS = 2
WORLDS = 12


class Answers:
    """Hears every answer of a world, and keeps what is wrong with it."""

    def __init__(self) -> None:
        self.operations: set[str] = set()
        self.wrong: set[str] = set()

    def hear(self, call: Call, answer: dict[str, Any] | AwsError) -> None:
        if isinstance(answer, AwsError):
            return
        self.operations.add(call.name)
        shape = service_model(call.service).operation_model(call.operation).output_shape
        if shape is None:
            self.wrong |= {f"{call.name} answers nothing on AWS, here {answer}"} if answer else set()
            return
        report = ParamValidator().validate(answer, shape)
        faults = report.generate_report().splitlines() if report.has_errors() else []
        # Lengths bind requests: SSM, for one, answers with an empty list of invalid names.
        self.wrong |= {f"{call.name}: {fault}" for fault in faults if not fault.startswith("Invalid length")}


def heard_in(seed: int) -> Answers:
    drawn, answers = draw_world(seed), Answers()
    clock = VirtualClock(drawn.scenario.start)
    with seeded(seed), open_world(drawn.scenario, drawn.region, seed, Recorder(clock), clock, QUICK) as world:
        world.account.wire.listen(answers.hear)
        world.play([])
        clock.run_until(drawn.scenario.start + drawn.fault_time + AFTER_STEPS)
        world.finish()
    return answers


@pytest.mark.ci
@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=pytest.mark.slow if seed > QUICK_WORLDS else ()) for seed in range(1, WORLDS + 1)],
)
def test_answers_have_botocores_shapes(seed: int) -> None:
    answers = heard_in(seed)
    assert {"ec2:CreateFleet", "ec2:DescribeInstances", "dynamodb:Query"} <= answers.operations
    assert not answers.wrong
