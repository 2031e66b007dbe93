"""Runs a program in several processes with different hash seeds, by which the order of sets differs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def outputs_of(program: str, hash_seeds: tuple[str, ...] = ("0", "1", "4711")) -> set[bytes]:
    """Return what Python code prints on standard output, under each hash seed.

    Raises:
        subprocess.CalledProcessError: If the program fails.
    """
    return {
        subprocess.run(  # noqa: S603 - our own interpreter and program
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            check=True,
            capture_output=True,
        ).stdout
        for seed in hash_seeds
    }
