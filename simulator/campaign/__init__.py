"""The fault campaign: the real handlers run in seeded worlds with seeded faults, and judges check the results."""
