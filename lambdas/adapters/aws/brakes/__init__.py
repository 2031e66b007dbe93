"""Brakes as AWS keeps them: a parameter, alarms, zonal shifts, and rows of our table."""
