"""From fractions to whole machines: rounding, exchange, ruin and recreate."""
