"""Measures in the embedded world what the functions cost, and draws what the dashboards show.

`make cost` plays clusters of several sizes for an hour of a working day and multiplies their usage by list prices; `make
dashboards` draws both dashboards from the metrics of a simulated night.
"""
