"""What the functions cost and what the dashboards show, measured in the embedded world.

`make cost` plays clusters of several sizes for an hour of a working day and multiplies what was used by list prices;
`make dashboards` renders both dashboards from the metrics of such an hour.
"""
