"""What decisions read and say: plain frozen data, integers for resources and money, aware datetimes for time."""
