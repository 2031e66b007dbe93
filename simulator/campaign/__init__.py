"""The fault campaign: the real handlers run in seeded worlds with seeded faults, and judges check the results."""

import os

from installation.array_threads import ARRAY_THREADS

os.environ.update(ARRAY_THREADS)  # before numpy is loaded, as in the functions (docs/engineering/handbook/planning.md)
