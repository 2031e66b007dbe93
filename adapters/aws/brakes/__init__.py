"""Brakes kept in AWS: a parameter, alarms, zonal shifts, and rows of our table."""
