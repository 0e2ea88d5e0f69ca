"""What other filters have learned, in our terms: their dumps, read. Pure."""
