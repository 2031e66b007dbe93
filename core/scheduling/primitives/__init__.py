"""Small values that are compared millions of times: resource vectors, requirement numbers, bit masks."""
