"""Measures how fast we plan and what the plans cost, beside Karpenter's own scheduler on the same pods and types.

`make bench` runs every case, `make bench-quick` a selection that takes two minutes; `python -m benchmarks --help` explains how
to run single cases.
"""

import os

from installation.array_threads import ARRAY_THREADS

os.environ.update(ARRAY_THREADS)  # before numpy is loaded, as in the functions (docs/engineering/handbook/planning.md)
