"""The record of every run: tables, transactions, repository and the hash-chained ledger."""
