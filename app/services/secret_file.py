"""Secret files: the secrets of the site that stand in files of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from app.errors import InvalidSetting, reason

if TYPE_CHECKING:
    from pathlib import Path

MIN_SECRET: Final = 16
"""Bytes of a secret; fewer can be guessed from one signature."""


def read_secret(file: Path | None, variable: str, *, purpose: str) -> bytes:
    """Return the secret in a file, without the line end.

    Parameters
    ----------
    file : Path or None
        The file; None where the variable is unset.
    variable : str
        The variable that names it.
    purpose : str
        What it does, as the sentence for a missing one begins.

    Raises
    ------
    InvalidSetting
        If there is none, or it cannot be used.
    """
    if file is None:
        msg = (
            f"{purpose}: write one into a file (openssl rand -hex 32) and name it in "
            f"{variable}"
        )
        raise InvalidSetting(msg)
    try:
        found = file.read_bytes().strip()
    except OSError as error:
        msg = f"{variable} names {str(file)!r}, which cannot be read: {reason(error)}"
        raise InvalidSetting(msg) from error
    if len(found) < MIN_SECRET:
        msg = (
            f"{variable} names {str(file)!r}, which holds {len(found)} characters; a "
            f"secret has {MIN_SECRET} at least (openssl rand -hex 32)"
        )
        raise InvalidSetting(msg)
    return found
