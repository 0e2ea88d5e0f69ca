"""The page that an evaluation leaves: one file, no scripts, nothing from outside."""
