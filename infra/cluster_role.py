"""`python -m infra.cluster_role` prints the functions' ClusterRoles and their bindings, for `kubectl apply` or GitOps."""

from __future__ import annotations

import sys

import yaml

from installation.cluster_roles import manifests

if __name__ == "__main__":
    written = yaml.safe_dump_all(
        manifests(
            surge="--surge" in sys.argv,
            approval="--approve" in sys.argv,
            steering="--steer" in sys.argv,
            shadow="--shadow" in sys.argv,
        ),
        sort_keys=False,
    )
    print(written, end="")  # noqa: T201 - this is the program's output
