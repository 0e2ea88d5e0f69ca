"""Access: who asks, and what that one may do, without I/O."""
