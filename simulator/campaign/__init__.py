"""The campaign: seeded worlds under seeded faults, played by the real handlers and judged."""
