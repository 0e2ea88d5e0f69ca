"""Which command takes back what another has just done?"""

from __future__ import annotations

from shlex import quote


def undo_of(source: str, *, profile: str) -> str:
    """Return the command that takes back what has a source, as a shell reads it.

    Examples
    --------
    >>> undo_of("undo:1", profile="default")
    'postbayes undo --profile default --source undo:1'
    """
    return f"postbayes undo --profile {quote(profile)} --source {quote(source)}"
