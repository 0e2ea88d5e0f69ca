"""A profile as a file: written, checked, and learned from."""
