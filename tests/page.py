"""Open a report in headless Chromium, if one is installed, and check what a person would see: `python -m tests.page FILE`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SECONDS_MAX = 60


def browser() -> str | None:
    """Path of an installed Chromium, or None."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def rendered(page: Path, program: str) -> str:
    """The document after its scripts have run."""
    with tempfile.TemporaryDirectory() as profile:
        flags = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
        done = subprocess.run(  # noqa: S603 - a fixed program on a file of ours
            [
                program,
                *flags.split(),
                "--disable-sync",
                f"--user-data-dir={profile}",
                "--dump-dom",
                page.resolve().as_uri(),
            ],
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=True,
        )
    return done.stdout


def problems(dom: str) -> list[str]:
    """What a person would miss on the page."""
    found = []
    if dom.count('class="chart"') < 4:
        found.append("fewer than four charts")
    if re.search(r'class="area[^"]*" d="M', dom) is None:
        found.append("the charts are empty")
    shown = re.search(r'id="count">(\d+) of (\d+)<', dom)
    if shown is None or shown.group(1) != shown.group(2) or shown.group(2) == "0":
        found.append("the table of decisions is empty, or its script did not run")
    return found


def main(arguments: list[str]) -> int:
    """Exit 0 when the page is fine or no browser is here to tell, else 1."""
    page, program = Path(arguments[0]), browser()
    if program is None:
        print(f"{page}: no Chromium here, so the page was not opened", file=sys.stderr)  # noqa: T201
        return 0
    found = problems(rendered(page, program))
    print(f"{page}: {'; '.join(found) or 'opened in Chromium, charts and decisions are there'}", file=sys.stderr)  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
