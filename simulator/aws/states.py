"""Step Functions: plays the state machine of the wiring, as far as it uses Amazon States Language, in virtual time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import msgspec

from installation.wiring import ALL_BY_NAME, PARTS_MACHINE, FunctionSpec, definition
from simulator.aws.queues import AwsError
from simulator.clock import VirtualClock
from simulator.invocation.sandbox import CRASH, ERROR, OK, TIMEOUT
from simulator.record import Recorder

INPUT_MAX: Final = 262_144
"""Bytes of an execution's input, and of what a state passes on (docs/engineering/aws-facts.md#states-payload)."""

START_DELAY: Final = timedelta(milliseconds=200)
"""From a state to the next, and from a Distributed Map to the start of a child's execution."""

THROTTLED: Final = "Lambda.TooManyRequestsException"
_ERRORS: Final = {CRASH: "Runtime.ExitError", TIMEOUT: "Sandbox.Timedout"}
"""Outcome of an invocation → the error with which Step Functions' task fails."""

Ended = Callable[[str], None]
"""Called at the end of a state with the name of its error, empty for none."""

Invoke = Callable[[FunctionSpec, dict[str, Any], Callable[[str, dict[str, Any] | None], None]], bool]
"""Invokes a function and waits for its answer; returns whether there was room for it."""


class _Execution(msgspec.Struct, kw_only=True):
    """One execution, of which Step Functions keeps the name for 90 days."""

    name: str
    state_input: dict[str, Any]
    arn: str
    started: datetime
    status: str = "RUNNING"


class Executions:
    """Answers Step Functions' calls for the machine that decides about parts, and plays its executions.

    Attributes:
        repeats: Draws whether a task's answer is lost, so that its function is invoked once more.
    """

    def __init__(self, clock: VirtualClock, recorder: Recorder, region: str, account: str) -> None:
        self._clock = clock
        self._recorder = recorder
        prefix = f"arn:aws:lambda:{region}:{account}:function:"
        self.arn = f"arn:aws:states:{region}:{account}:stateMachine:parts"
        self._functions = {f"{prefix}{spec.name}:live": spec for spec in ALL_BY_NAME.values()}
        arns = {spec.name: arn for arn, spec in self._functions.items()}
        self._machine = definition(PARTS_MACHINE, lambda spec: arns[spec.name], "aws")
        self._executions: dict[str, _Execution] = {}
        self._invoke: Invoke = lambda *_: False
        self.repeats: Callable[[], bool] = lambda: False

    @property
    def statuses(self) -> tuple[str, ...]:
        """The state of each execution, in the order of their starts."""
        return tuple(execution.status for execution in self._executions.values())

    def on_task(self, invoke: Invoke) -> None:
        """Invoke functions in this way."""
        self._invoke = invoke

    def start(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer states:StartExecution; the same request again starts nothing while the execution runs.

        Raises:
            AwsError: If the machine does not exist, the input is too large, or the name was used.
        """
        if request["stateMachineArn"] != self.arn:
            raise AwsError("StateMachineDoesNotExist", f"State Machine Does Not Exist: '{request['stateMachineArn']}'")
        if len(request.get("input", "{}").encode()) > INPUT_MAX:
            raise AwsError("InvalidExecutionInput", "the input is too large")
        state_input, name = json.loads(request.get("input", "{}")), request["name"]
        execution = self._executions.get(name)
        if execution is not None and (execution.status != "RUNNING" or execution.state_input != state_input):
            raise AwsError("ExecutionAlreadyExists", f"Execution Already Exists: '{execution.arn}'")
        if execution is None:
            arn = f"{self.arn.replace(':stateMachine:', ':execution:')}:{name}"
            execution = _Execution(name=name, state_input=state_input, arn=arn, started=self._clock.now())
            self._executions[name] = execution
            self._begin(execution)
        return {"executionArn": execution.arn, "startDate": execution.started}

    def describe(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer states:DescribeExecution. Raises AwsError if there is no such execution."""
        execution = self._executions.get(request["executionArn"].rpartition(":")[2])
        if execution is None or execution.arn != request["executionArn"]:
            raise AwsError("ExecutionDoesNotExist", f"Execution Does Not Exist: '{request['executionArn']}'")
        return {"executionArn": execution.arn, "name": execution.name, "status": execution.status}

    def _begin(self, execution: _Execution) -> None:
        seconds = self._machine["TimeoutSeconds"]
        self._clock.after(timedelta(seconds=seconds), partial(self._end, execution, "TIMED_OUT"))
        self._recorder.emit("executionStarted", execution=execution.name)
        self._play(execution, self._machine, execution.state_input, partial(self._finish, execution))

    def _finish(self, execution: _Execution, error: str) -> None:
        self._end(execution, "FAILED" if error else "SUCCEEDED")

    def _end(self, execution: _Execution, status: str) -> None:
        if execution.status == "RUNNING":
            execution.status = status
            self._recorder.emit("executionEnded", execution=execution.name, status=status)

    def _play(
        self, execution: _Execution, machine: Mapping[str, Any], state_input: dict[str, Any], ended: Ended
    ) -> None:
        """Play the states of the machine, or of a child, from the first on. Each passes its input on."""

        def enter(name: str) -> None:
            state = machine["States"][name]
            play = self._map if state["Type"] == "Map" else self._task
            self._clock.after(START_DELAY, lambda: play(execution, state, state_input, partial(leave, state)))

        def leave(state: Mapping[str, Any], error: str) -> None:
            catchers = (catcher for catcher in state.get("Catch", ()) if _matches(catcher, error))
            catch = next(catchers, None) if error else None
            following = catch["Next"] if catch is not None else "" if error else state.get("Next", "")
            if execution.status != "RUNNING":
                return
            if following:
                enter(following)
            else:
                ended(error)

        enter(machine["StartAt"])

    def _map(self, execution: _Execution, state: Mapping[str, Any], state_input: dict[str, Any], ended: Ended) -> None:
        """Run a child for each item, so many at once; the state fails if more of them fail than it tolerates."""
        items = [
            _filled(state["ItemSelector"], state_input, item) for item in _at(state["ItemsPath"], state_input, None)
        ]
        waiting, failed, running = list(items), list[str](), Counter[str]()

        def begin() -> None:
            while waiting and running["children"] < state["MaxConcurrency"]:
                running["children"] += 1
                self._play(execution, state["ItemProcessor"], waiting.pop(0), done)
            if not running["children"]:
                is_tolerated = len(failed) * 100 <= state["ToleratedFailurePercentage"] * len(items)
                ended("" if is_tolerated else "States.ExceedToleratedFailureThreshold")

        def done(error: str) -> None:
            failed.extend(filter(None, [error]))
            running["children"] -= 1
            begin()

        begin()

    def _task(self, execution: _Execution, state: Mapping[str, Any], state_input: dict[str, Any], ended: Ended) -> None:
        function = self._functions[state["Parameters"]["FunctionName"]]
        payload, tried = _filled(state["Parameters"]["Payload"], state_input, None), Counter[int]()

        def attempt() -> None:
            if execution.status == "RUNNING" and not self._invoke(function, payload, answered):
                failed(THROTTLED)

        def answered(outcome: str, response: dict[str, Any] | None) -> None:
            if outcome == OK and self.repeats():
                self._recorder.emit("answerLost", execution=execution.name, function=function.name)
                attempt()
            elif outcome == OK:
                ended("")
            else:
                kind = str((response or {}).get("errorType", ""))
                failed(kind if outcome == ERROR else _ERRORS[outcome])

        def failed(error: str) -> None:
            for number, retry in enumerate(state.get("Retry", ())):
                if _matches(retry, error) and tried[number] < retry["MaxAttempts"]:
                    wait = retry["IntervalSeconds"] * retry["BackoffRate"] ** tried[number]
                    tried[number] += 1
                    self._clock.after(timedelta(seconds=wait), attempt)
                    return
            ended(error)

        attempt()


def _matches(rule: Mapping[str, Sequence[str]], error: str) -> bool:
    return "States.ALL" in rule["ErrorEquals"] or error in rule["ErrorEquals"]


def _filled(template: Mapping[str, Any], state_input: dict[str, Any], item: Any) -> dict[str, Any]:
    """Return a payload template with the values that its paths name."""
    return {
        key.removesuffix(".$"): _at(value, state_input, item) if key.endswith(".$") else value
        for key, value in template.items()
    }


def _at(path: str, state_input: dict[str, Any], item: Any) -> Any:
    return item if path == "$$.Map.Item.Value" else state_input[path.removeprefix("$.")]
