"""The page of versions that work together, from the constants that the code and the tests use."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

from core.api.crds import definitions
from core.version import VERSION
from infra.packaging.bundles import LAMBDA
from infra.release.charts import KUBERNETES
from tests.e2e.parts.builds import MODULES, RELEASES

ROOT: Final = Path(__file__).parents[1]
FIELDS: Final = ROOT / "tests" / "oracle" / "karpenter_fields.txt"


_NEWEST_RAN = "on 1.37 the CRDs, roles, command line and a burst"
_PEER_RAN = "v1.15.0 on Kubernetes 1.37, as peer, in hand-over and in shadow"


def text() -> str:
    """Return the whole page."""
    tested = ", ".join(f"{version} ({exact})" for version, (exact, _) in sorted(RELEASES.items()))
    oldest = KUBERNETES.removesuffix("-0").replace(">=", "")
    served = "".join(f"| `{kind}` | `{api}` |\n" for api, kind in sorted(apis()))
    return f"""<!-- Written by `make docs`. Change the code, not this page. -->

# Compatibility

Version {VERSION}. The columns on the right are what tests run or compare; other versions may work.

| | accepted | tested |
| --- | --- | --- |
| Kubernetes | {oldest} or newer, as the Helm charts demand | {tested}: real control planes; {_NEWEST_RAN} |
| Karpenter's fields | all of {karpenter_fields()} | compared with Karpenter's CustomResourceDefinitions |
| Karpenter's controller beside ours | {karpenter_peer()} | {_PEER_RAN} |
| Python of the command line | {requires_python().replace(">=", "")} or newer | 3.11 |
| Python of the functions | {LAMBDA.python} on `{LAMBDA.architecture}`, Lambda's runtime | {LAMBDA.python} |

## API versions

| kind | version |
| --- | --- |
{served}
`fleetwright convert` writes older versions of these kinds as the ones above; all other commands refuse them.
"""


def apis() -> set[tuple[str, str]]:
    """Return API version and kind of each definition, for the versions that are served."""
    return {
        (f"{found['spec']['group']}/{version['name']}", found["spec"]["names"]["kind"])
        for found in definitions()
        for version in found["spec"]["versions"]
        if version["served"]
    }


def karpenter_fields() -> str:
    """Return the release of Karpenter whose fields are taken in."""
    match = re.search(r"v\d+\.\d+\.\d+", FIELDS.read_text(encoding="utf-8").splitlines()[0])
    if match is None:
        raise ValueError(f"{FIELDS.name} does not say of which release it is")
    return match[0]


def karpenter_peer() -> str:
    """Return the release of Karpenter's controller that the suite runs."""
    match = re.search(r"sigs\.k8s\.io/karpenter (v\S+)", (MODULES / "karpenter" / "go.mod").read_text(encoding="utf-8"))
    if match is None:
        raise ValueError("no module pins Karpenter's controller")
    return match[1]


def requires_python() -> str:
    """Return what pip demands."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["requires-python"])
