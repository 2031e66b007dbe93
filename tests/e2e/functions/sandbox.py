"""One sandbox: a process of awslambdaric with the packaged bundle, its limits, and what its invocations took."""

from __future__ import annotations

import math
import os
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from installation.wiring import FunctionSpec
from simulator.aws.queues import Lineage
from simulator.events import ACCOUNT, REGION
from tests.e2e.functions.package import Package
from tests.e2e.functions.runtime_api import Answer, Order, RuntimeApi
from tests.e2e.parts.processes import Part, Processes

OK: Final = "ok"
ERROR: Final = "error"
TIMEOUT: Final = "timeout"
CRASH: Final = "crash"
OUT_OF_MEMORY: Final = "out of memory"

INIT_SECONDS: Final = 10.0
"""Lambda gives a sandbox as long to start; then it counts as a time-out."""

GONE_CHECK_SECONDS: Final = 0.2
"""How often a sandbox that is being waited for is looked at, whether it still lives."""


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one invocation, with the figures of Lambda's REPORT line.

    Attributes:
        started_at: Epoch seconds.
        duration_ms: From the order to the answer.
        init_ms: From the start of the process to its first question for work, 0 where the sandbox was warm.
        billed_ms: Rounded up, start included.
        memory_kb: The most that the process has had resident so far.
        response: What the handler returned, or its error with errorType and errorMessage.
    """

    function: str
    request_id: str
    trigger: str
    outcome: str
    started_at: float
    duration_ms: float
    init_ms: float
    billed_ms: int
    memory_kb: int
    response: Any = None


class Sandbox:
    """One process; runs one invocation at a time. `is_alive` is False once it was killed or has ended.

    It is killed after `slack` times its time-outs, Lambda's and the function's; it is told the deployed ones, and its leases
    last as long.
    """

    def __init__(
        self,
        spec: FunctionSpec,
        package: Package,
        environment: Mapping[str, str],
        processes: Processes,
        *,
        slack: int = 1,
    ) -> None:
        self.spec = spec
        self._slack = slack
        self.api = RuntimeApi()
        self._processes = processes
        self._started = time.monotonic()
        self._part: Part = processes.start(
            spec.name,
            [_interpreter(), "-S", "-P", "-m", "awslambdaric", spec.handler],
            environment=_environment(spec, package, environment, self.api.address),
        )
        self._is_new = True

    @property
    def is_alive(self) -> bool:
        """Return whether the sandbox can take another invocation."""
        return self._part.is_running

    def run(self, event: Mapping[str, Any], trigger: str, lineage: Lineage = MappingProxyType({})) -> Invocation:
        """Hand over an event and wait for the answer; past the function's time-out the process is killed.

        `lineage` is the chain of messages that led to the event, without this invocation.
        """
        failed = self._await_start()
        request_id, started_at = str(uuid.uuid4()), time.time()
        began, seconds = time.monotonic(), self.spec.timeout.total_seconds()
        if failed is None:
            arn = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{self.spec.name}"
            chain = {**lineage, self.spec.name: lineage.get(self.spec.name, 0) + 1}
            deadline, body = started_at + seconds, _encoded(event)
            self.api.give(Order(request_id=request_id, function_arn=arn, deadline=deadline, event=body, lineage=chain))
            outcome, answer = self._await_answer(began + seconds * self._slack)
        else:
            outcome, answer = failed
        duration, init = (time.monotonic() - began) * 1000, self._init_ms()
        memory = self._memory_kb()
        if memory > self.spec.memory_mb * 1024:
            outcome = OUT_OF_MEMORY
        if outcome not in (OK, ERROR):
            self.kill()
        return Invocation(
            function=self.spec.name,
            request_id=request_id,
            trigger=trigger,
            outcome=outcome,
            started_at=started_at,
            duration_ms=round(duration, 1),
            init_ms=round(init, 1),
            billed_ms=math.ceil(duration + init),
            memory_kb=memory,
            response=None if answer is None else _decoded(answer.body),
        )

    def kill(self) -> None:
        """End the process at once, whatever it does: a crash, a time-out, the end of the sandbox."""
        self._processes.stop(self._part, seconds=0.0)
        self.api.close()

    def _await_start(self) -> tuple[str, Answer | None] | None:
        end = self._started + INIT_SECONDS * self._slack
        while not self.api.wait_until_asked(GONE_CHECK_SECONDS):
            if not self._part.is_running:
                return CRASH, None
            if time.monotonic() > end:
                return TIMEOUT, None
        if self.api.asked_at is None:
            return CRASH, self.api.answer(0)
        return None

    def _await_answer(self, end: float) -> tuple[str, Answer | None]:
        while (left := end - time.monotonic()) > 0:
            answer = self.api.answer(min(left, GONE_CHECK_SECONDS))
            if answer is not None:
                return (ERROR if answer.error_type else OK), answer
            if not self._part.is_running:
                return CRASH, None
        return TIMEOUT, None

    def _init_ms(self) -> float:
        was_new, self._is_new = self._is_new, False
        if not was_new or self.api.asked_at is None:
            return 0.0
        return (self.api.asked_at - self._started) * 1000

    def _memory_kb(self) -> int:
        try:
            status = Path(f"/proc/{self._part.pid}/status").read_text()
        except OSError:
            return 0
        found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
        return int(found[0]) if found else 0


def _interpreter() -> str:
    """Return the interpreter outside the virtual environment, so that a package missing in the bundle is missing here, too."""
    return str(getattr(sys, "_base_executable", sys.executable))


def _environment(spec: FunctionSpec, package: Package, settings: Mapping[str, str], runtime_api: str) -> dict[str, str]:
    """What Lambda sets besides the function's own variables; nothing of this process's environment but where programs are."""
    return {
        "PATH": os.defpath,
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": f"{package.task(spec)}{os.pathsep}{package.runtime}",
        "LAMBDA_TASK_ROOT": str(package.task(spec)),
        "LAMBDA_RUNTIME_DIR": str(package.runtime),
        "AWS_LAMBDA_RUNTIME_API": runtime_api,
        "AWS_LAMBDA_FUNCTION_NAME": spec.name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(spec.memory_mb),
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
        "AWS_LAMBDA_LOG_FORMAT": "JSON",
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{spec.name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "e2e",
        "_HANDLER": spec.handler,
        **settings,
    }


def _encoded(event: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(event)


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return body.decode(errors="replace")
