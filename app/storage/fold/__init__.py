"""The fold of ledger rows into counts."""
