"""The answers of the commands: documents for programs, tables for people."""
