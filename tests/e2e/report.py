"""`build/e2e.json`: what the real parts showed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tests.e2e.judge import Elsewhere, Verdict
from tests.e2e.latency import percentile


class Report:
    """Collects the suite's figures.

    Attributes:
        scenarios: The verdicts, in the order in which they were played.
        audit, poll: Seconds from pod to CreateFleet, by what woke the functions.
        elsewhere: By scene, the pods that are not where they were planned.
    """

    def __init__(self) -> None:
        self.scenarios: list[Verdict] = []
        self.audit: list[float] = []
        self.poll: list[float] = []
        self.elsewhere: dict[str, list[Elsewhere]] = {}

    def write(
        self,
        path: Path,
        *,
        cold_starts: dict[str, int],
        missing: Iterable[object],
        unused: Iterable[object],
        functions: dict[str, dict[str, int]],
    ) -> None:
        """Write the report, and beside it what people ask next: who is elsewhere, and what each function took."""
        report: dict[str, Any] = {
            "scenarios": [msgspec.to_builtins(verdict) for verdict in self.scenarios],
            "latencySeconds": {"audit": _spread(self.audit), "poll": _spread(self.poll)},
            "coldStartMillis": cold_starts,
            "unusedVerbs": [str(verb) for verb in unused],
            "missingVerbs": [str(verb) for verb in missing],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
        details = {"functions": functions, "elsewhere": self.elsewhere}
        path.with_name("e2e-details.json").write_bytes(msgspec.json.format(msgspec.json.encode(details), indent=2))


def _spread(values: list[float]) -> dict[str, float | None]:
    return {"p50": percentile(values, 0.5), "p99": percentile(values, 0.99)}
