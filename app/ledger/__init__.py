"""The ledger: entries, teachings, undo and their encodings. Pure."""
