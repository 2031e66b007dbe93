"""Packing problems: which machine types may be bought for which items, divided by zone if they are large."""
