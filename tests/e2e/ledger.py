"""The decisions of functions that ran with real parts: read from the bucket, and repeated."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from core.ledger.reading import PREFIX
from tests.e2e.report import Report
from tests.e2e.world import World
from tests.replay import replayed


def assert_decisions_repeat(world: World, report: Report) -> None:
    """Repeat every decision of the world's functions in another process, and note how many there were."""
    folder = world.processes.logs / "ledger"
    save(world.cloud.client("s3"), world.cloud.settings.bucket_name, folder)
    found = replayed(sys.executable, folder)
    assert found["equal"] == found["decisions"] > 0, [*found["different"], *found["unreadable"]]
    report.decisions += found["decisions"]


def save(s3: Any, bucket: str, folder: Path) -> None:
    """Write the ledger from the bucket into a folder, as `aws s3 sync` does; `s3` is a client of boto3."""
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=PREFIX):
        for item in page.get("Contents", ()):
            file = folder / item["Key"].removeprefix(PREFIX)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read())
