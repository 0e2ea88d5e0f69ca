"""Profiles: creation, renaming, deletion, policies, and the file of the key."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from dataclasses import replace
from secrets import token_bytes
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from app.classifier.policy import Policy
from app.classifier.specification import check_labels, check_name
from app.classifier.verdict import ActionRule
from app.errors import Inconsistent, InvalidPolicy, InvalidSetting, reason
from app.features.extract import FEATURE_SET
from app.features.id_key import KEY_BYTES, IdKey
from app.services.access import note
from app.storage import hidden, profiles
from app.storage.database.engine import reading, writing
from app.storage.database.sqlite import give_to_owner_of

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from sqlalchemy import Connection, Engine

    from app.classifier.learn import MessageCounts
    from app.classifier.specification import Specification
    from app.settings import Settings
    from app.storage.profiles import ProfileRow


def list_profiles(engine: Engine, only: str | None = None) -> list[ProfileRow]:
    """Return the stored profiles, or only the one of a name, sorted by name.

    Raises
    ------
    UnknownProfile
        If there is no profile of that name.
    """
    with reading(engine) as connection:
        return profiles.list_all(connection, only)


def create_profile(
    engine: Engine,
    name: str,
    *,
    labels: tuple[str, ...],
    spam_labels: tuple[str, ...],
    time: datetime,
    id_key: str | None = None,
    actor: str | None = None,
) -> None:
    """Create a profile unless it exists with the same labels.

    Its feature ids are keyed if the digest of a key is given.  The events record who
    created it.

    Raises
    ------
    InvalidSetting
        If the name or the labels cannot be used.
    ProfileExists
        If the profile exists with other labels.
    """
    check_name(name)
    check_labels(labels, spam_labels)
    with writing(engine) as connection:
        made = profiles.create(
            connection,
            name=name,
            labels=labels,
            spam_labels=spam_labels,
            feature_set=FEATURE_SET,
            created_at=time,
            id_key=id_key,
        )
        if actor is not None and made.created_at == time:
            note(connection, "profile created", name, actor=actor)


def count_messages(engine: Engine, rows: Sequence[ProfileRow]) -> list[Counter[str]]:
    """Return the learned messages by label, for each of some profiles."""
    with reading(engine) as connection:
        counts = profiles.count_by_month(connection, [row.id for row in rows])
    return [profiles.by_label(counts[row.id]) for row in rows]


def rename_profile(engine: Engine, name: str, new: str) -> None:
    """Rename a profile.

    Raises
    ------
    InvalidSetting
        If the name cannot be used.
    UnknownProfile
        If there is no profile of that name.
    ProfileExists
        If another profile has the new name.
    """
    check_name(new)
    with writing(engine) as connection:
        profiles.rename(connection, profiles.find_locked(connection, name), new)


def delete_profile(engine: Engine, name: str, *, actor: str = "http") -> Iterator[int]:
    """Delete a profile and all that it has learned, in steps.

    The first step makes it unavailable.  If the steps are interrupted, the maintenance
    of a service completes them.

    Yields
    ------
    int
        Number of steps done: 1.

    Raises
    ------
    UnknownProfile
        If there is no profile of that name.
    """
    with writing(engine) as connection:
        row = profiles.find_locked(connection, name)
        hidden.hide(connection, row, why="deleted")
        note(connection, "profile deleted", name, actor=actor)
    yield from hidden.remove(engine, row.id)


def learned(counted: MessageCounts) -> dict[str, int]:
    """Return the learned messages by label."""
    return counted.specification.by_label(counted.messages)


def label_of(row: ProfileRow, word: str) -> str:
    """Return the label of a profile for a word of a protocol.

    Some protocols know only *spam* and *ham*.  If a profile has other labels, each word
    stands for the first label of its side.  Any other word is returned as a label.
    """
    if word in row.labels or word not in {"spam", "ham"}:
        return word
    return next(
        label for label in row.labels if (label in row.spam_labels) == (word == "spam")
    )


log = logging.getLogger(__name__)


def specification_of(row: ProfileRow, service: Specification) -> Specification:
    """Return the specification of a stored profile, given that of the settings.

    Notes
    -----
    If the policy cannot be read, mail is marked and passes: a damaged profile must not
    hold or refuse mail, or stop other profiles.
    """
    labelled = replace(service, labels=row.labels, spam_labels=row.spam_labels)
    try:
        policy = row.read_policy()
    except Inconsistent as error:
        log.error("%s", error)  # noqa: TRY400  a defect of the data, not of ours
        spam_from = service.verdict.spam_threshold
        return replace(labelled, action=ActionRule(spam_from=spam_from))
    try:
        policy.require_kept(labelled)
    except InvalidPolicy as error:
        log.warning(
            "a part of the policy of the profile %r is ignored: %s", row.name, error
        )
    return policy.applied_to(labelled)


def change(
    engine: Engine,
    name: str,
    service: Specification,
    changes: Mapping[str, Any],
    *,
    actor: str = "http",
) -> tuple[Policy, Policy]:
    """Change the policy of a profile, and return it from before and after.

    Parameters
    ----------
    changes : mapping of str to value
        Fields of `Policy`; other fields stay, and None leaves a field to the
        service's settings.

    Raises
    ------
    UnknownProfile
        If there is no profile of that name.
    InvalidPolicy
        If a value is out of range, or contradicts another one.
    DatabaseUnavailable
        If it could not be stored; then nothing is changed.
    """
    with writing(engine) as connection:
        row = profiles.find_locked(connection, name)
        try:
            before = row.read_policy()
        except Inconsistent as error:
            log.warning("%s", error)
            before = Policy()
        after = replace(before, **changes)
        after.require_kept(service)
        document = after.document()
        profiles.set_policy(connection, row, document)
        if before != after:
            note(connection, "policy changed", name, actor=actor, now=document)
    if before != after:
        shown = document or "that of the service's settings"
        log.info("the policy of %r is now %s", name, shown)
    return before, after


def key_of(engine: Engine, settings: Settings, *, make: bool = False) -> IdKey | None:
    """Return the key of a database; None if it has none and does not need one.

    Parameters
    ----------
    settings : Settings
        Names the file.
    make : bool, default False
        Whether to create the file if it does not exist and no profile has a key yet.

    Raises
    ------
    InvalidSetting
        If a profile needs a key that the file lacks, or the file cannot be read or
        created.
    """
    with reading(engine) as connection:
        require_keys(connection, settings)
    key = _read(settings.key_file)
    return _made(settings.key_file) if key is None and make else key


def require_keys(connection: Connection, settings: Settings) -> None:
    """Raise if a profile needs a key that the file lacks.

    Raises
    ------
    InvalidSetting
        If one does.
    """
    rows = profiles.list_all(connection)
    for row in {row.id_key: row for row in rows}.values():
        key_for(row, settings)


def key_for(row: ProfileRow, settings: Settings) -> IdKey | None:
    """Return the key of a profile; None if its feature ids are not keyed.

    Raises
    ------
    InvalidSetting
        If the file lacks it.
    """
    if row.id_key is None:
        return None
    key = _read(settings.key_file)
    if key is None or key.digest != row.id_key:
        holds = "is not there" if key is None else f"holds the key {key.digest}"
        raise InvalidSetting(
            f"POSTBAYES_KEY_FILE names {str(settings.key_file)!r}, which {holds}, but "
            f"the profile {row.name!r} needs the key {row.id_key}; restore the file "
            "with that key from your copy"
        )
    return key


def id_key_of_new(engine: Engine, settings: Settings) -> str | None:
    """Return the digest of a new profile's key; None if words are stored.

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
        why = f"it must hold {2 * KEY_BYTES} hexadecimal digits and nothing else"
    msg = f"POSTBAYES_KEY_FILE names {str(file)!r}, which cannot be read: {why}"
    raise InvalidSetting(msg)


def _made(file: Path) -> IdKey | None:
    """Create the file, readable only by its owner, and return its key."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=file.parent, encoding="ascii") as new:
            new.write(token_bytes(KEY_BYTES).hex() + "\n")
            new.flush()
            os.fsync(new.fileno())
            give_to_owner_of(file.parent, new.fileno())
            # A rename would replace a key that another process created meanwhile.
            with suppress(FileExistsError):
                os.link(new.name, file)
        # Answered feedback survives a power cut, so the key must survive it too.
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise InvalidSetting(
            f"the key file {str(file)!r} (POSTBAYES_KEY_FILE) cannot be created: "
            f"{reason(error)}"
        ) from error
    return _read(file)
