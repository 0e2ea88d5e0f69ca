"""Reference: the pages of docs/reference, generated from the code."""
