"""Exchange: a profile as a file, and the dumps of other filters."""
