"""Which other names does mail come for? Those of a file, read again when it changes.

Contract of this file: what a changed file holds counts within a second or so,
and never a part of it: one that cannot be read leaves the aliases as they were.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from app.classifier.specification import check_name
from app.errors import InvalidSetting

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger(__name__)


class Aliases:
    """The aliases of a file, by name.

    Parameters
    ----------
    file : Path or None
        Of lines ``alias: profile``, see `parse_aliases`; None has none.

    Raises
    ------
    InvalidSetting
        If the file cannot be read, or a line of it is not an alias.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._seen: tuple[int, int, int] | None = None
        self._found: dict[str, str] = {}
        if file is not None:
            self._seen = _state(file)
            self._found = _read(file)

    def get(self, name: str) -> str | None:
        """Return what is looked up in the place of a name in lower case."""
        return self._found.get(name)

    def refresh(self) -> None:
        """Read the file again if it is another one than before."""
        if self._file is None:
            return
        state = _state(self._file)
        if state == self._seen:
            return
        self._seen = state
        try:
            found = _read(self._file)
        except InvalidSetting as error:
            log.error("the aliases stay as they were: %s", error)  # noqa: TRY400
            return
        self._found = found
        log.info("%s: %d aliases are read anew", self._file, len(found))


def _state(file: Path) -> tuple[int, int, int] | None:
    """Return what tells a file from what it was; None where it is not there."""
    try:
        found = file.stat()
    except OSError:
        return None
    # The size as well, because two writes may have one time, and the number of
    # the file, because another one may have been put in its place with an older.
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(file: Path) -> dict[str, str]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"POSTBAYES_ALIASES names {str(file)!r}, which cannot be read: {error}"
        raise InvalidSetting(msg) from error
    return parse_aliases(text, str(file))


def parse_aliases(text: str, file: str) -> dict[str, str]:
    r"""Return the aliases that a file holds.

    Parameters
    ----------
    text : str
        One alias per line, ``alias: profile``: an address, a user's name or
        ``@domain``, and what is looked up in its place.  Blank lines and those
        that begin with ``#`` say nothing.
    file : str
        Name of the file, for errors.

    Returns
    -------
    dict of str to str
        By the alias in lower case.

    Raises
    ------
    InvalidSetting
        If a line is not of that form, or an alias stands twice.

    Examples
    --------
    >>> parse_aliases("# the shop\nSales@example.org: bob@example.org\n", "aliases")
    {'sales@example.org': 'bob@example.org'}
    """
    aliases: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        alias, colon, profile = (part.strip() for part in content.partition(":"))
        if not (alias and colon and profile):
            msg = (
                f"line {number} of {file} must be 'alias: profile', "
                f"got {content[:128]!r}"
            )
            raise InvalidSetting(msg)
        try:
            check_name(profile)
        except InvalidSetting as error:
            msg = f"line {number} of {file}: {error}"
            raise InvalidSetting(msg) from error
        alias = alias.lower()
        if alias in aliases:
            msg = f"line {number} of {file} names the alias {alias!r} again; keep one"
            raise InvalidSetting(msg)
        aliases[alias] = profile
    return aliases
