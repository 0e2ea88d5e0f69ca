"""Key file: where the key of feature ids is kept, apart from the database."""

from __future__ import annotations

import os
from contextlib import suppress
from secrets import token_bytes
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from app.errors import InvalidSetting, reason
from app.features.id_key import KEY_BYTES, IdKey
from app.services.profiles import list_profiles

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Engine

    from app.settings import Settings
    from app.storage.profiles import ProfileRow


def key_of(engine: Engine, settings: Settings, *, make: bool = False) -> IdKey | None:
    """Return the key of a database; None where there is none and none is needed.

    Parameters
    ----------
    engine : Engine
        The database.
    settings : Settings
        Names the file.
    make : bool, default False
        Whether the file is made if there is none and no profile has a key yet.

    Raises
    ------
    InvalidSetting
        If a profile needs a key that the file does not hold, or the file cannot be
        read or made.
    """
    needed = {row.id_key: row for row in list_profiles(engine) if row.id_key}
    for row in needed.values():
        key_for(row, settings)
    key = _read(settings.key_file)
    return _made(settings.key_file) if key is None and make else key


def key_for(row: ProfileRow, settings: Settings) -> IdKey | None:
    """Return the key of a profile; None if its feature ids are not keyed.

    Raises
    ------
    InvalidSetting
        If the file does not hold it.
    """
    if row.id_key is None:
        return None
    key = _read(settings.key_file)
    if key is None or key.digest != row.id_key:
        holds = "is not there" if key is None else f"holds the key {key.digest}"
        msg = (
            f"POSTBAYES_KEY_FILE names {str(settings.key_file)!r}, which {holds}, and "
            f"the profile {row.name!r} cannot be read without the key {row.id_key}; "
            "put the file with that key there, from where you keep its copy"
        )
        raise InvalidSetting(msg)
    return key


def id_key_of_new(engine: Engine, settings: Settings) -> str | None:
    """Return the digest of a new profile's key; None where words are stored.

    Raises
    ------
    InvalidSetting
        As `key_of`.
    """
    key = None if settings.store_words else key_of(engine, settings, make=True)
    return None if key is None else key.digest


def _read(file: Path) -> IdKey | None:
    """Return the key in a file; None if there is no file."""
    try:
        return IdKey(bytes.fromhex(file.read_text(encoding="ascii")))
    except FileNotFoundError:
        return None
    except OSError as error:
        why = reason(error)
    except (ValueError, InvalidSetting):
        why = f"it has to hold {2 * KEY_BYTES} hexadecimal digits and nothing else"
    msg = f"POSTBAYES_KEY_FILE names {str(file)!r}, which cannot be read: {why}"
    raise InvalidSetting(msg)


def _made(file: Path) -> IdKey | None:
    """Return the key of a new file, which only its owner may read."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=file.parent, encoding="ascii") as new:
            new.write(token_bytes(KEY_BYTES).hex() + "\n")
            new.flush()
            os.fsync(new.fileno())
            # A rename would replace the key that another process has made meanwhile.
            with suppress(FileExistsError):
                os.link(new.name, file)
        # Feedback that is answered outlives a power cut, and so has the key.
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        msg = (
            f"the key file {str(file)!r} (POSTBAYES_KEY_FILE) cannot be made: "
            f"{reason(error)}"
        )
        raise InvalidSetting(msg) from error
    return _read(file)
