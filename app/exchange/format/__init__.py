"""Format of an export: blocks, header and parts."""
