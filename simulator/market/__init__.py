"""The market that is built in: instance types, zones and prices of us-east-1, for the command line and the embedded AWS."""
