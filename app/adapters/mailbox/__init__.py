"""A mailbox that is followed over IMAP: what people move teaches."""
