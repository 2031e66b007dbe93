"""The functions' bundles for Lambda's arm64, built without Docker: `python -m infra.packaging` fills build/package.

There are two bundles: `solver` contains numpy and HiGHS; `base` does not, and starts faster. Each contains our code and the
locked dependencies (`requirements.lock`, checked by hash) as bytecode: Lambda cannot store bytecode, and would compile at every
cold start.
"""
