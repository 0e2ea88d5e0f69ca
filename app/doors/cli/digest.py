"""`postbayes digest`: mail to users about their spam and unsure messages."""

from __future__ import annotations

import smtplib
import time
from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from io import BufferedReader, RawIOBase
from smtplib import SMTPDataError, SMTPNotSupportedError, SMTPRecipientsRefused
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from pydantic import AwareDatetime, ConfigDict, TypeAdapter, ValidationError
from typer import Option

from app.doors.cli import complain
from app.doors.cli.client import loaded
from app.doors.cli.console import OUT, StateFile, number_of
from app.errors import InvalidInput, InvalidSetting, MailServerUnavailable, reason
from app.services.clock import now
from app.services.digest import collect, links_of, mail, sending_of

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime
    from email.message import EmailMessage

    from app.services.application import Application
    from app.settings import Settings

# Of a reply of the mail server: some lines of 512 bytes (RFC 5321 section 4.5.3.1.5).
# Units: seconds and bytes.
_PATIENCE: Final = 30.0
_MOST_BYTES: Final = 64 * 1024
# What is impossible is not tried again: neither address nor mail server change by then.
_Outcome: TypeAlias = Literal["sent", "refused", "impossible"]


def digest(
    profiles: Annotated[list[str] | None, Option("--profile")] = None,
    to: Annotated[str | None, Option(metavar="ADDRESS")] = None,
    hours: Annotated[float, Option(min=0.1, max=8_760)] = 24.0,
    stdout: bool = False,
) -> None:
    """Send users a digest of their spam and unsure messages.

    Run it from cron or a systemd timer. The mail lists these messages
    since the last digest, with signed links to a page that explains and teaches. A
    profile without such messages gets no mail. POSTBAYES_SMTP is the mail server,
    without a login.

    Parameters
    ----------
    profiles
        Name of a profile; by default all profiles whose names are addresses. May be
        repeated.
    to
        The recipient, if not the address that is the profile's name.
    hours
        Hours that the first digest of a profile covers.
    stdout
        Print the mail instead of sending it, and record nothing.
    """
    with loaded() as app:
        settings = app.settings
        links, (sender, url) = links_of(settings), sending_of(settings)
        store = StateFile(settings.digest_state, "POSTBAYES_DIGEST_STATE")
        times = _last_digests(store)
        if not stdout:
            # Before any mail, which every run would send again if this failed later.
            _write(store, times)
        outcomes: Counter[_Outcome] = Counter()
        with _sender(None if stdout else settings.smtp) as send:
            for name, address in _addressed(app, profiles, to):
                until = now()
                since = times.get(name)
                # The latter after a clock that ran ahead.
                if since is None or since > until:
                    since = until - timedelta(hours=hours)
                found = collect(app.history, name, since=since, until=until)
                if found.entries:
                    made = mail(found, links, sender=sender, recipient=address, url=url)
                    outcome = _sent(send, made, address, settings)
                    outcomes[outcome] += 1
                    if outcome == "refused":
                        continue
                if not stdout:
                    times[name] = until
                    _write(store, times)
    if not stdout:
        OUT.print(number_of(outcomes["sent"], "digest"))
    refused, impossible = (outcomes[each] for each in ("refused", "impossible"))
    if refused:
        raise MailServerUnavailable(
            f"the mail server refused {number_of(refused, 'digest')}; the next run "
            "sends them again"
        )
    if impossible:
        raise InvalidInput(f"{number_of(impossible, 'digest')} cannot be sent")


def _sent(
    send: Callable[[EmailMessage], object],
    made: EmailMessage,
    address: str,
    settings: Settings,
) -> _Outcome:
    """Send a digest; complain if it was not sent.

    Raises
    ------
    InvalidSetting
        If the server can send nothing from the sender of the settings.
    """
    try:
        send(made)
    # The others do not wait for an address without a mailbox.
    except (SMTPRecipientsRefused, SMTPDataError) as error:
        complain(f"the digest for {address} was refused: {error}")
        return "refused"
    except SMTPNotSupportedError as error:
        says = (
            f"the mail server {settings.smtp} takes only ASCII before the @ (it has no "
            "SMTPUTF8)"
        )
        if not all(each.addr_spec.isascii() for each in made["From"].addresses):
            msg = f"POSTBAYES_DIGEST_FROM is {settings.digest_from!r}, and {says}"
            raise InvalidSetting(msg) from error
        complain(f"the digest for {address} cannot be sent: {says}")
        return "impossible"
    return "sent"


def _addressed(
    app: Application, profiles: Sequence[str] | None, to: str | None
) -> Iterator[tuple[str, str]]:
    """Yield the profiles that get a digest, with the recipient of each.

    Raises
    ------
    InvalidInput
        If the recipient of a profile's digest is unknown.
    UnknownProfile
        If there is no such profile.
    """
    if to is not None and len(profiles or ()) != 1:
        raise InvalidInput("--to is for one profile; name it with --profile")
    every = [each.row.name for each in app.live]
    # The profile of a domain may begin with "@", and no address ends with it.
    named = profiles or sorted(name for name in every if "@" in name[1:-1])
    for name in named:
        app.live.find(name)
        if to is None and "@" not in name[1:-1]:
            msg = f"the profile {name!r} is not an address; give a recipient with --to"
            raise InvalidInput(msg)
        yield name, to or name


@contextmanager
def _sender(server: str | None) -> Iterator[Callable[[EmailMessage], object]]:
    """Give the function that sends a mail through a server, or prints it.

    Raises
    ------
    InvalidSetting
        If the server's name is invalid.
    MailServerUnavailable
        If the server does not accept the mail.
    """
    if server is None:
        yield lambda made: OUT.print(made.as_string())
        return
    host, _, port = server.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65_536:  # noqa: PLR2004
        msg = f"POSTBAYES_SMTP is {server!r}; write host:port, such as 127.0.0.1:25"
        raise InvalidSetting(msg)
    try:
        with _Client(host.strip("[]"), int(port), timeout=_PATIENCE) as smtp:
            yield smtp.send_message
    except (OSError, smtplib.SMTPException) as error:
        msg = f"the mail server {server} did not accept a digest: {reason(error)}"
        raise MailServerUnavailable(msg) from error


class _Client(smtplib.SMTP):
    """A client that waits for the end of a reply, but not for ever.

    That of the library has a limit for each piece, and none for their number.
    """

    def getreply(self) -> tuple[int, bytes]:
        """Return the next reply, with its code."""
        if self.file is None and self.sock is not None:
            self._replies = _Replies(self.sock)
            self.file = BufferedReader(self._replies)
        self._replies.begin()
        return super().getreply()


class _Replies(RawIOBase):
    """What a mail server sends, within bounds for each reply."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def begin(self) -> None:
        """Begin a reply."""
        self._until = time.monotonic() + _PATIENCE
        self._left = _MOST_BYTES

    def readable(self) -> bool:
        """Return whether it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Receive a piece."""
        seconds = self._until - time.monotonic()
        if seconds <= 0 or self._left <= 0:
            raise TimeoutError("its reply has no end")
        self._connection.settimeout(seconds)
        number = self._connection.recv_into(buffer)
        self._connection.settimeout(_PATIENCE)
        self._left -= number
        return number


_TIMES: Final = TypeAdapter(dict[str, AwareDatetime], config=ConfigDict(strict=True))


def _write(file: StateFile, times: dict[str, datetime]) -> None:
    file.write(_TIMES.dump_json(times).decode())


def _last_digests(file: StateFile) -> dict[str, datetime]:
    """Return the time of each profile's last digest.

    Raises
    ------
    InvalidSetting
        If the file cannot be read.
    """
    try:
        return _TIMES.validate_json(file.read() or "{}")
    except ValidationError as error:
        raise InvalidSetting(
            f"{file.variable}, {file.path}, is not a state file of `postbayes digest`; "
            "remove it, and the next digests begin anew"
        ) from error
