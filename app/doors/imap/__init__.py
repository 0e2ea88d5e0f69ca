"""A mailbox followed over IMAP."""
