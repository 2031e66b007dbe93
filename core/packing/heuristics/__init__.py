"""From fractions to whole machines: rounding and exchange."""
