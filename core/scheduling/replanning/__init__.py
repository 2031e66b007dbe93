"""Makes plans again, in another order or with other zones, where the first one left pods without a place."""
