"""A linear program over whole machine loads (columns): master problem, pricing, and the dual bound."""
