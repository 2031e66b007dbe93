"""Every reason code: closed enumerations, each member with what it means and what to do about it.

Plans, decisions, events and metrics carry a member, never a literal. `docs/reference/reason-codes.md` is written from here.
"""
