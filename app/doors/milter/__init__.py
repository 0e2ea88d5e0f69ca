"""The milter door."""
