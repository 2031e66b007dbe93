"""DynamoDB in memory and in virtual time: one table, as far as the functions use it, with its conditions and transactions.

A contract test (`tests/contract/test_table_answers.py`) compares its answers with DynamoDB's.
"""

PUBLIC = ("table", "values")
"""Files that the rest of the project may import; the others are this package's inside."""
