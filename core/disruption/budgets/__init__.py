"""Disruption budgets of NodePools, their cron schedules, and the moments at which their windows open and close."""
