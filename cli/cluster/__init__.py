"""A cluster as a whole: read from its API server, written as one document, with or without its names."""
