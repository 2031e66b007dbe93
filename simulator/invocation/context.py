"""What Lambda tells a handler about its invocation."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from simulator.clock import VirtualClock


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Lambda's context of an invocation."""

    function_name: str
    memory_limit_in_mb: int
    aws_request_id: str
    clock: VirtualClock
    deadline: datetime
    function_version: str = "$LATEST"
    log_stream_name: str = "simulated"

    @property
    def log_group_name(self) -> str:
        """Its log group."""
        return f"/aws/lambda/{self.function_name}"

    @property
    def invoked_function_arn(self) -> str:
        """Its ARN."""
        return f"arn:aws:lambda:us-east-1:123456789012:function:{self.function_name}"

    def get_remaining_time_in_millis(self) -> int:
        """How long the invocation may still run."""
        return max(0, round((self.deadline - self.clock.now()) / timedelta(milliseconds=1)))
