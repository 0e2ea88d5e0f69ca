"""State that a process keeps in memory."""
