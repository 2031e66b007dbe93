"""Writes the templates of all installations: `python -m tests.template_checks.synthesis FOLDER`.

With `--nag` what cdk-nag finds is written besides.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import aws_cdk as cdk
from cdk_nag import AwsSolutionsChecks

from app import add_clusters
from tests.infra.conftest import ROOT
from tests.template_checks import configurations

NAGGED: Final = (("public", "aws"), ("private", "aws"))
"""All else has the same resources under other names."""

NAG_FOLDER: Final = "nag-"
REPORT: Final = "validation-report.json"


def main() -> int:
    """Write every installation into a folder of its own."""
    folder = Path(sys.argv[1])
    for partition in configurations.REGIONS:
        for name in configurations.NAMES:
            synthesize(folder, name, partition)
    for partition in configurations.FURTHER_REGIONS:
        synthesize(folder, "private", partition)
    if "--nag" in sys.argv:
        for name, partition in NAGGED:
            _nag(folder / f"{NAG_FOLDER}{name}", configurations.context(name, partition))
    return 0


def synthesize(folder: Path, name: str, partition: str) -> None:
    """Write the templates of one installation into a folder of its own."""
    _app(folder / f"{name}-{partition}", configurations.context(name, partition)).synth()


def _nag(target: Path, context: dict[str, Any]) -> None:
    app = _app(target, context)
    cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app, verbose=True))
    try:
        app.synth()
    except RuntimeError as error:  # which it always is while there are findings: the report has them
        if "ValidationFailed" not in str(error):
            raise


def _app(target: Path, context: dict[str, Any]) -> cdk.App:
    flags = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    app = cdk.App(outdir=str(target), context={**flags, **context})
    add_clusters(app, account=None, region=None, is_packaged=False)
    return app


if __name__ == "__main__":
    sys.exit(main())
