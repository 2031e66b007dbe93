"""The formats that user data is written in; the families put it together."""
