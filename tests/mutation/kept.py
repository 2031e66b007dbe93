"""Keeps a sample of some areas in docs/figures.json, from which `make docs` writes the page of what is proven."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from tests.mutation.areas import ROOT

FIGURES: Final = ROOT / "docs" / "figures.json"


def keep(
    name: str,
    figures: Mapping[str, Any],
    *,
    command: Sequence[str],
    began: datetime,
    ended: datetime,
    exit_code: int = 0,
    path: Path = FIGURES,
) -> None:
    """Write the step `mutants-NAME`, in place of an earlier one of this name; other steps stay."""
    kept = json.loads(path.read_text())
    of = "named faults" if "named" in figures else f"seed {figures['seed']}"
    killed = f"{figures['killed']} of {figures['mutants']} killed ({figures['percent']} %), {of}"
    kept["steps"][f"mutants-{name}"] = {
        "startedAt": began.isoformat(timespec="seconds"),
        "commit": _commit(),
        "command": " ".join(["python -m tests.mutation", *command]),
        "exitCode": exit_code,
        "seconds": round((ended - began).total_seconds()),
        "lastLines": [killed],
        "figures": figures,
    }
    path.write_text(json.dumps(kept, indent=2) + "\n")


def _commit() -> str:
    command = ["git", "rev-parse", "HEAD"]
    git = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - fixed arguments
    return git.stdout.strip()
