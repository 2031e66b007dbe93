"""Pure functions that choose the next step of a claim or command from its record and the facts about it."""

PUBLIC = (
    "binding",
    "claims",
    "commands",
    "deletion",
    "draining",
    "launching",
    "metering",
    "node_claim_objects",
    "records",
    "registration",
    "steps",
    "takeover",
)
"""Files that the rest of the project may import; the others are this package's inside."""
