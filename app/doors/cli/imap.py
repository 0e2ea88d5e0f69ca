"""`postbayes imap`: follow a mailbox, and teach messages that its owner moves."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from app.doors.cli import raise_for
from app.doors.cli.client import ask, url_of
from app.doors.cli.console import (
    OUT,
    Profile,
    StateFile,
    TaughtUrl,
    interruptible,
    number_of,
)
from app.doors.documents.message import FeedbackOut
from app.doors.imap.account import HAM, SPAM, logged_in
from app.doors.imap.follower import Follower, Memory
from app.errors import InvalidSetting, UnreadableMessage
from app.ledger.entry import MAX_SOURCE
from app.services.log import keep_log
from app.settings import load_settings, read_named

if TYPE_CHECKING:
    from app.settings import Settings


def imap(once: bool = False, url: TaughtUrl = None, profile: Profile = None) -> None:
    """Follow a mailbox, and teach the messages moved into and out of Junk.

    For mail servers without IMAPSieve. Mail that appears in Junk is taught as spam,
    unless Postbayes itself marked it; mail that moves from Junk to the inbox or the
    archive is taught as ham; deleted mail is not taught. Folders with other labels,
    and marks, are followed if configured. The POSTBAYES_IMAP settings name the
    mailbox, which is never changed.

    Parameters
    ----------
    once
        Check once and stop, for cron.
    """
    settings = load_settings()
    host, user = settings.imap_host, settings.imap_user
    if host is None or user is None:
        raise InvalidSetting(
            "POSTBAYES_IMAP_HOST and POSTBAYES_IMAP_USER must name the "
            "mailbox to follow"
        )
    keep_log(settings)
    if once:
        # Lines that are the same in each run, because cron mails them.
        logging.getLogger(logged_in.__module__).setLevel(logging.WARNING)
    store = StateFile(settings.imap_state, "POSTBAYES_IMAP_STATE")
    follower = Follower(
        connect=partial(
            logged_in,
            host=host,
            port=settings.imap_port,
            security=settings.imap_security,
            user=user,
            password=password(settings),
        ),
        folders=folders(settings),
        teach=partial(_teach, url or url_of(settings), user, profile),
        memory=Memory.load(store.read(), file=store.path),
        keep=store.write,
        marks=settings.imap_marks,
    )
    # A signal ends it at once: there is nothing to clean up, and a log-out may take a
    # minute.
    with interruptible("interrupted; everything taught is kept", ending=()):
        if once:
            with follower.connect() as account:
                number = follower.look(account)
            passed = follower.passed_over.total()
            OUT.print(
                number_of(number, "message") + (f", {passed} skipped" if passed else "")
            )
            raise_for(follower.passed_over[UnreadableMessage.__name__])
            return
        for _ in follower.follow():
            pass


def folders(settings: Settings) -> tuple[tuple[str, str | None], ...]:
    """Return label and name of each folder to follow.

    The server notifies of changes in the last: in Junk, so that what soon moves out of
    it is known; or in the inbox, where marks are set and which messages leave for
    folders with other labels.

    Raises
    ------
    InvalidSetting
        If a folder has no label, or several.
    """
    junk, inbox = (SPAM, settings.imap_junk), (HAM, settings.imap_inbox)
    more = settings.imap_folders or settings.imap_marks
    first, last = (junk, inbox) if more else (inbox, junk)
    found: list[tuple[str, str | None]] = [first]
    for each in settings.imap_folders:
        name, _, label = (part.strip() for part in each.rpartition("="))
        if not (name and label):
            raise InvalidSetting(
                f"POSTBAYES_IMAP_FOLDERS has {each!r}; write FOLDER=LABEL, such as "
                "Newsletter=newsletter"
            )
        found.append((label, name))
    found.append(last)
    names = [name for _, name in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        msg = f"the folder {twice!r} is named twice among POSTBAYES_IMAP_FOLDERS, "
        msg += "POSTBAYES_IMAP_JUNK and POSTBAYES_IMAP_INBOX; give it one label"
        raise InvalidSetting(msg)
    return tuple(found)


def password(settings: Settings) -> str:
    """Return the password of the mailbox.

    Raises
    ------
    InvalidSetting
        If there is no password, or the file cannot be read.
    """
    file = settings.imap_password_file
    if file is None:
        if settings.imap_password is None:
            msg = "POSTBAYES_IMAP_PASSWORD_FILE must name a file with the password"
            raise InvalidSetting(msg)
        return settings.imap_password
    found = read_named(file, "POSTBAYES_IMAP_PASSWORD_FILE").rstrip("\r\n")
    if not found:
        raise InvalidSetting(
            f"POSTBAYES_IMAP_PASSWORD_FILE, {file}, is empty; write the password in it"
        )
    return found


def _teach(url: str, user: str, profile: str | None, raw: bytes, word: str) -> None:
    whose = {"recipient": user} if profile is None else {"profile": profile}
    source = f"imap {user}"[:MAX_SOURCE]
    query = {"label": word, "source": source, **whose}
    found = ask(FeedbackOut, url, "/feedback", raw, query)
    log = logging.getLogger(__name__)
    log.info("%s as %s: message %s", found.outcome, word, found.id)
