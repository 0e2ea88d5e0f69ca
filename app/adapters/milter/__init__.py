"""The milter door: a mail server asks about each message before it takes it."""
