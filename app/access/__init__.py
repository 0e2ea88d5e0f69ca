"""Access: authentication and rights of clients, without I/O."""
