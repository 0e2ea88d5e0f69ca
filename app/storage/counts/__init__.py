"""The counts, and the fold of ledger rows into them."""
