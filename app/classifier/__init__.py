"""Which class, and why: specification, snapshot, score, verdict. Pure."""
