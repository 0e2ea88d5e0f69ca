"""Exchange: profiles as files, and dumps of other filters."""
