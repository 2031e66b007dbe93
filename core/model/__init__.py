"""The model: inputs and results of decisions as frozen data, integers for resources and money, aware datetimes for time."""
