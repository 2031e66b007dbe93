"""`python -m tests.release FOLDER`: installs every file of a release as a user would, and notes the results in release.json."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from infra.release import artefacts
from infra.release.archives import sha256
from infra.release.artefacts import Artefact, Release, Result
from tests.release.checks import CHECKS, Place
from tests.release.tools import MissingToolError


def main() -> int:
    """Run each test once, in the order of the files' worth; 1 if one failed."""
    folder = Path(sys.argv[1]).resolve()
    chosen = sys.argv[2:]
    release = artefacts.read(folder)
    changed = [found.file for found in release.artefacts if sha256(folder / found.file) != found.sha256]
    if changed:
        print(f"not what release.json says: {', '.join(changed)}")  # noqa: T201 - the answer
        return 1
    if (folder / artefacts.SIGNATURE).exists():
        artefacts.verify_checksums(folder)
    results = {}
    for name in [name for _, name in artefacts.TEST_OF if not chosen or name in chosen]:
        results[name] = tested(name, folder, release)
        stated = results[name]
        print(f"{stated.result:8} {stated.seconds:6.1f} s  {name}: {stated.says}", flush=True)  # noqa: T201 - the answer
    release.artefacts = [_with(found, results) for found in release.artefacts]
    artefacts.write(folder, release)
    return int(any(stated.result == "failed" for stated in results.values()))


def tested(name: str, folder: Path, release: Release) -> Result:
    """Return how one test ended."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        try:
            result, says = "passed", CHECKS[name](Place(folder, Path(work), release.version))
        except MissingToolError as error:
            result, says = "skipped", str(error)
        except subprocess.CalledProcessError as error:
            result, says = "failed", f"{error} {str(error.stdout or '')[-500:]} {str(error.stderr or '')[-1500:]}"
        except Exception as error:  # noqa: BLE001 - whatever failed belongs into the record
            result, says = "failed", repr(error)
    return Result(name=name, result=result, seconds=round(time.monotonic() - began, 1), says=says)


def _with(found: Artefact, results: dict[str, Result]) -> Artefact:
    return msgspec.structs.replace(found, test=results.get(found.test.name, found.test))


if __name__ == "__main__":
    sys.exit(main())
