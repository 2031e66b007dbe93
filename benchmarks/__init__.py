"""How fast we plan and what the plans cost, beside Karpenter's own scheduler on the same pods and types.

`make bench` runs all of it, `make bench-quick` a part that takes two minutes; `python -m benchmarks --help` explains
how to run parts.
"""
