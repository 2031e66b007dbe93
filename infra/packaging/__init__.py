"""The functions' bundles for Lambda's arm64, built without Docker: `python -m infra.packaging` fills build/package.

Two bundles: `solver` has numpy and HiGHS, `base` has not, and starts faster for it. Each holds our sources, locked dependencies
(`requirements.lock`, checked by hash) and bytecode: Lambda cannot keep any, and would compile at every cold start.
"""
