"""How fast we plan and what the plans cost, beside Karpenter's own scheduler on the same pods and types.

`make bench` runs all of it, `make bench-quick` what fits two minutes; `python -m benchmarks --help` says how to run parts.
"""
