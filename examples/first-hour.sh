#!/usr/bin/env bash
# The first hour, in the order in which a newcomer asks. Run it from the repository: examples/first-hour.sh
# Nothing here needs a cluster or an AWS account. A test plays every line.
set -uo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"

# Is what I have well written?
fleetwright validate -f examples/pools -f examples/workloads

# Where would my pods go, and what would it cost?
fleetwright plan -f examples/pools -f examples/workloads

# Why has this one no place, and what is missing?
fleetwright explain research/forgot-the-toleration -f examples/pools -f examples/workloads

# What can that NodePool launch, and what does the code mean?
fleetwright explain nodepool/gpu -f examples/pools -f examples/workloads
fleetwright explain TaintNotTolerated

# What would a pull request do that adds the GPU work?
fleetwright diff --from examples/workloads/shop.yaml --to examples/workloads/shop.yaml examples/workloads/gpu.yaml -f examples/pools

# The names of the nodes, for a script; one value, for another.
fleetwright plan -f examples/pools -f examples/workloads/shop.yaml -o name
fleetwright plan -f examples/pools -f examples/workloads/shop.yaml -o jsonpath={.cost.hourly}

# What does the cluster have to know?
fleetwright crds | head -n 5

# A cluster's night and Sunday morning, as the functions would live it: half a minute, and a page to look at.
make demo
