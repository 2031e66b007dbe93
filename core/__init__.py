"""The pure decision core: it turns a snapshot into a plan.

Nothing below this package knows a clock, chance, the network, the environment or an SDK; `pyproject.toml` has the import
contracts that keep it so. Equal snapshots give equal plans, byte for byte.
"""
