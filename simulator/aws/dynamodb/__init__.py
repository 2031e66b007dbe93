"""DynamoDB in memory and in virtual time: one table, as far as the functions use it, with its conditions and transactions.

That it answers as DynamoDB does is a contract (`tests/contract/test_table_answers.py`).
"""
