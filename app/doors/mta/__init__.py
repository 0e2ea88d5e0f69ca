"""Parts that the mail doors share."""
