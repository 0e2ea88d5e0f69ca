"""Settings of an operator: every `POSTBAYES_*` variable, in one place."""

from __future__ import annotations

import ast
import os
import re
import sys
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from inspect import getsource
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from dotenv import dotenv_values
from dotenv.parser import parse_stream
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from app.access.networks import LOOPBACK
from app.classifier.policy import SAYS, threshold_of
from app.classifier.rule import SHIPPED_VIEWS
from app.classifier.specification import LABELS, SPAM_LABELS, check_labels, check_name
from app.errors import InvalidSetting, reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MEBIBYTE: Final = 1024 * 1024
PREFIX: Final = "POSTBAYES_"
FILE: Final = f"{PREFIX}SETTINGS_FILE"
"""The variable that names a file of settings; it cannot stand in one."""
# Variables that other programs read: `deploy/dovecot/postbayes-teach`,
# `docker-compose.yml` and the tests.
_OF_OTHERS: Final = frozenset(
    {
        *("api_key", "url", "queue", "memory"),
        *("publish", "publish_smtp", "publish_imap"),
        *("publish_prometheus", "publish_grafana"),
        *("require_postgres", "require_clients", "require_mail", "require_browser"),
    }
)


def _split(value: object) -> object:
    """Read a comma-separated list as the tuple that it stands for."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Words = Annotated[tuple[str, ...], BeforeValidator(_split)]


def _threshold(value: object) -> object:
    """Read a threshold as `postbayes policy` does."""
    if not isinstance(value, str):
        return value
    try:
        return threshold_of(value)
    except ValueError:
        # Pydantic would prefix the sentence of a ValueError with the class.
        kind = "threshold"
        raise PydanticCustomError(kind, f"write {SAYS}, or never") from None


Threshold = Annotated[float | None, BeforeValidator(_threshold)]


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """Return the classes in the source of a module, by name."""
    tree = ast.parse(getsource(sys.modules[module]))
    return {each.name: each for each in tree.body if isinstance(each, ast.ClassDef)}


@cache
def texts_below(kind: type) -> dict[str, str]:
    """Return the text below each field of a class or its bases, in one line.

    They are read when somebody asks.  `use_attribute_docstrings` of pydantic reads
    them at each import, which takes 0.1 s of CPU for all documents.
    """
    texts = {}
    for each in reversed(kind.__mro__):
        if each.__module__.startswith("app."):
            for two in pairwise(_classes(each.__module__)[each.__name__].body):
                match two:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(text))),
                    ):
                        texts[name] = " ".join(text.split())
    return texts


def describe(schema: dict[str, Any], kind: type[BaseModel]) -> None:
    """Describe the fields in the schema of a class by the texts below them."""
    for name, field in kind.model_fields.items():
        described = schema["properties"][field.alias or name]
        described.setdefault("description", texts_below(kind).get(name))


class Settings(BaseModel):
    """The settings, each from the variable `POSTBAYES_` and its name.

    `load_settings` reads the variables, and a file of the same lines.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=describe)

    database_url: str = "sqlite:///var/postbayes.db"
    """Database of the ledger and the counts: `sqlite:///relative/path`,
    `sqlite:////absolute/path` or `postgresql://user:password@host/name`.
    """
    host: str = "127.0.0.1"
    """Address that `serve` listens on: `0.0.0.0` is every address of IPv4, and `::`
    every address of IPv6 and IPv4.
    """
    host_names: Words = ()
    """Names, separated by commas, under which clients reach the service over HTTP:
    `filter.example.org`. IP addresses, `localhost` and names without a dot need not be
    listed. Requests under any other name get 403; otherwise, a web page whose name
    resolves to this machine (DNS rebinding) could use the filter through a user's
    browser.
    """
    port: int = Field(8025, ge=0, le=65535)
    """Port that `serve` listens on."""
    workers: int = Field(1, ge=1, le=256)
    """Processes that `serve` runs on its one port. Each keeps the profiles that it
    needs in memory, and follows the others within a second.
    """
    profile: str = "default"
    """Profile that is created at the first start, and used by requests that name no
    profile.
    """
    aliases: Path | None = None
    """File of lines `alias: profile`, for recipients whose profile has another name. An
    alias is an address, a user name or `@domain`. The file is read again when it
    changes.
    """
    labels: Words = LABELS
    """Labels of a new profile, separated by commas.

    A profile that exists keeps its own.
    """
    spam_labels: Words = SPAM_LABELS
    """Labels that count as spam."""
    text_views: Words = SHIPPED_VIEWS
    """Views of the text that a verdict uses, separated by commas: `words`, `headers`,
    `pairs` of neighbouring words, `corrections`, and `grams` of four symbols. The last
    two learn only messages that they misjudged or nearly misjudged themselves, so
    nothing of an archive that is not scored; corrections use the words, headers and
    pairs. Grams rank mail better, take an eighth of the time of a verdict (experiment
    0097), and are left out where hashes hide the
    words. A view that is added later learns only from messages taught after that.
    """
    levels: bool = True
    """Whether the profile of an address or a domain backs off to the profiles above it:
    the counts of the user, the domain and the site make one verdict, so a new profile
    starts with the site's knowledge, and each of its own lessons counts more than one
    of the site. Off: the most personal profile that has learned both sides scores
    alone.
    """
    profile_bytes: int = Field(512 * MEBIBYTE, ge=MEBIBYTE, le=2**50)
    """Maximum memory for the counts of all profiles in a process. Profiles are loaded
    on demand; beyond this limit, the least recently used are unloaded.
    `POSTBAYES_PROFILE` always stays loaded.
    """
    profile_minutes: float = Field(60.0, gt=0, le=1e6)
    """Minutes after which an unused profile is unloaded. The next request loads it
    again.
    """
    max_request_bytes: int = Field(50 * MEBIBYTE, ge=1024)
    """Largest request body; larger ones get 413. The default is rspamd's `max_message`,
    and five times Postfix's `message_size_limit`.
    """
    store_words: bool = True
    """Whether to store the text of words beside their counts, which makes the tables
    readable. Off: only 64-bit hashes are stored, and those of a new profile are keyed
    (POSTBAYES_KEY_FILE).
    """
    key_file: Path = Path("var/postbayes.key")
    """File with the key of the hashes, created with mode 0600 when
    POSTBAYES_STORE_WORDS=false creates the first profile. Without it, that profile
    cannot be read, and backups of the database do not include it: keep a separate copy.
    All processes that share a database need the same key.
    """
    scored_days: float = Field(14.0, ge=0, le=36_500)
    """Days for which a scored message can be taught by its id alone. 0 stores no scored
    messages.
    """
    scored_rows: int = Field(50_000, ge=0, le=2**31)
    """Maximum number of scored messages stored for each profile, for teaching by id
    (about 7 kB each).
    """
    scored_bytes: int = Field(1024 * MEBIBYTE, ge=MEBIBYTE, le=2**50)
    """Maximum size of these messages together, in bytes; the oldest are deleted first.
    The largest message takes about 1 MB.
    """
    history_days: float = Field(30.0, ge=0, le=36_500)
    """Days for which the history keeps each verdict: time, sender, subject, recipients,
    size, verdict and strongest reasons. Without POSTBAYES_STORE_WORDS, it has no text.
    0 keeps no history, and neither does POSTBAYES_SCORED_DAYS=0.
    """
    history_rows: int = Field(100_000, ge=0, le=2**31)
    """Maximum number of verdicts in the history of a profile (about 0.5 kB each); the
    oldest are deleted first.
    """
    vector_days: float = Field(180.0, ge=0, le=36_500)
    """Days for which the ledger keeps the features of a message, and so for which it
    can be undone, relabelled or forgotten. 0 keeps them for ever, at about 7 kB per
    message.
    """
    ham_cost: float = Field(9.0, ge=1, le=1e12)
    """How many missed spam messages one lost ham message is worth. Mail is *spam* where
    spam is that many times as probable as ham, *ham* where ham is that many times as
    probable as spam, and *unsure* in between. A profile can have its own cost and
    thresholds (`postbayes policy`).
    """
    half_life_months: float | None = Field(None, ge=0.25, le=1200)
    """Months after which a learned message counts half; after eleven times as many it
    no longer counts. Unset: all messages have the same weight. Mail that `learn` reads
    counts as learned today, whatever its date. A half-life helps where people change
    their minds about the same mail, and harms if it is shorter than 3 months
    (experiment 0070).
    """
    autolearn_from: Threshold = None
    """Learn the filter's own verdicts whose log-odds are at least this far from 0, in
    nats or as a probability such as `99.9%`. Unset: never. Must not be below the spam
    threshold. It ranked worse where people taught one message in twenty, and mostly
    helped where they had taught 500 and stopped (experiment 0054). Never before 20
    messages of each side are learned. `postbayes undo --source auto` takes all of it
    back.
    """
    autolearn_per_day: int = Field(200, ge=1, le=1_000_000)
    """Maximum number of messages that a profile learns automatically per day, in UTC.
    """
    teacher_per_day: int | None = Field(None, ge=1, le=1_000_000)
    """Maximum number of messages that one source may teach a profile per day, in UTC;
    more get 429. Unset: unlimited.
    """
    suspects: Literal["log", "refuse"] = "refuse"
    """What to do about a suspect, a source that contradicts at least ten confident
    verdicts. These must be at least half of the verdicts that it contradicts, and those
    a third of the verdicts on its messages. A verdict is confident from 6.9 nats, or
    from the first quartile of the verdicts that labels confirm, if that is lower. A
    source that teaches most of the messages is no suspect, nor is any unless more
    sources teach at least ten messages without doing so. `refuse` logs the command that
    takes its lessons back and refuses further lessons with 403; `log` only logs it.
    """
    trusted_sources: Words = ()
    """Sources, separated by commas, that are never suspects and not limited by
    POSTBAYES_TEACHER_PER_DAY, such as a spam trap.
    """
    quarantine_from: Threshold = None
    """Quarantine spam from this log-odds up, in nats or as a probability such as
    `99.9%`, where the mail server supports it. Unset: never. Must not be below the spam
    threshold.
    """
    reject_from: Threshold = None
    """Reject spam from this log-odds up, in nats or as a probability such as `99.9%`,
    where the mail server supports it. Unset: never. Must not be below the quarantine
    threshold.
    """
    spam_header: str = "X-Spam-Flag: YES"
    """Header that is added to spam in addition to those of Postbayes, for existing
    rules. Empty: no such header.
    """
    explain_mail: bool = True
    """Whether mail servers get the reasons for a verdict: the header
    X-Postbayes-Explanation, and the words in the reports of the spamd and rspamd
    protocols.
    """
    milter: str | None = None
    """Address for the milter protocol: `host:port`, `inet:host:port` or `unix:/path`.
    Unset: off.
    """
    milter_skip_authenticated: bool = True
    """Whether mail of authenticated clients passes the milter unscored, so that the
    filter does not learn the mail of its own users.
    """
    milter_authserv_id: str | None = None
    """Name of this server, such as `mail.example.org`, under which the milter also
    writes its verdict into an `Authentication-Results` header (RFC 8601). Such headers
    in incoming mail are removed. Unset: no header is written or removed.
    """
    authserv_id: Words = ()
    """Names of this site's mail servers, separated by commas, whose
    `Authentication-Results` headers (RFC 8601) are trusted, as OpenDKIM and OpenDMARC
    add them before Postbayes. The servers must remove headers with these names from
    incoming mail. Empty: senders are never verified, and correspondents are neither
    counted nor recognised.
    """
    correspondents: bool = True
    """Whether to count the people to whom users write, as digests; mail whose verified
    author is one of them gets evidence of ham. Needs POSTBAYES_AUTHSERV_ID.
    """
    spamd: str | None = None
    """Address for the spamd protocol: `host:port`, such as `127.0.0.1:783`, or
    `unix:/path`. Unset: off.
    """
    rspamd: str | None = None
    """Address for the rspamd protocol: `host:port`, such as `127.0.0.1:11334`, or
    `unix:/path`. Unset: off.
    """
    keyless_from: Words = LOOPBACK
    """Addresses and networks, separated by commas, whose clients need no key and may do
    everything, as may clients of Unix sockets. All others need a key (`postbayes keys
    create`). For a request through a proxy, the address of the proxy's client counts,
    and without an entry in POSTBAYES_PROXIES it always needs a key. Empty: every client
    over TCP needs a key.
    """
    proxies: Words = ()
    """Addresses and networks of the proxies in front of this service, separated by
    commas. The client is the last address of `X-Forwarded-For` that is not one of them;
    forwarded addresses from other clients are ignored. A client with a listed address
    can claim any other: list no network that clients are in.
    """
    rate_per_key: float = Field(1000.0, ge=0, le=1e6)
    """Requests per second that a key may make of each worker, with bursts of twice as
    many. More get 429. 0: no limit.
    """
    rate_per_address: float = Field(1000.0, ge=0, le=1e6)
    """Requests per second that an address, or an IPv6 /64 network, may make of each
    worker, with bursts of twice as many. Keyless clients are not limited. 0: no limit.
    """
    session_hours: float = Field(8.0, gt=0, le=8760)
    """Hours without a request after which a person has to sign in again."""
    session_days: float = Field(14.0, gt=0, le=365)
    """Days after which a person has to sign in again in any case."""
    sign_in_header: str | None = Field(None, pattern=r"^[A-Za-z0-9-]+$")
    """Header in which a proxy passes the name of a person that it has authenticated,
    such as `Remote-User`. Accepted only from POSTBAYES_PROXIES, which must remove it
    from client requests, and only for people in `postbayes people`. Unset: off.
    """
    oidc_issuer: str | None = None
    """URL of an OpenID Connect provider with which people in `postbayes people` can
    sign in, such as https://id.example.org/realms/staff. Needs the extra `oidc`. Unset:
    off.
    """
    oidc_client_id: str | None = None
    """Client ID of this service at the provider."""
    oidc_client_secret_file: Path | None = None
    """File that contains only the client secret from the provider."""
    oidc_claim: Literal["email", "preferred_username"] = "email"
    """Claim of the provider that is a person's name in Postbayes: `email`, if verified,
    or `preferred_username`, if people cannot choose it themselves.
    """
    event_days: float = Field(365.0, ge=0, le=36_500)
    """Days for which events are kept: keys created, policies changed, sign-ins and the
    like (`postbayes events`). 0 keeps them for ever.
    """
    imap_host: str | None = None
    """IMAP server of the mailbox that `postbayes imap` follows."""
    imap_port: int | None = Field(None, ge=1, le=65535)
    """Port of the IMAP server. Unset: 993 with TLS, 143 without."""
    imap_security: Literal["tls", "starttls", "none"] = "tls"
    """Security of the connection to the IMAP server. `none` is for a server on the same
    machine.
    """
    imap_user: str | None = None
    """User of the mailbox."""
    imap_password: str | None = None
    """Password of the mailbox; a file is safer."""
    imap_password_file: Path | None = None
    """File that contains only the password of the mailbox."""
    imap_junk: str | None = None
    """Folder of unwanted mail. Unset: the folder that the server marks as junk
    (SPECIAL-USE, RFC 6154), or else `Junk`.
    """
    imap_inbox: str = "INBOX"
    """Folder of wanted mail."""
    imap_folders: Words = ()
    """Additional folders and their labels, separated by commas:
    `Newsletter=newsletter`. A message that appears there is taught, unless Postbayes
    itself gave it that label; with the label `ham`, as in `Projects=ham`, only if it
    was in a folder with another label before.
    """
    imap_marks: bool = False
    """Whether to learn from the marks `$Junk` and `$NotJunk` as well, which the filters
    of mail programs also set.
    """
    imap_state: Path = Path("var/imap.json")
    """File in which `postbayes imap` records the messages that it has seen, as hashes
    of headers without text. Each mailbox needs its own file.
    """
    offer: Words = ()
    """Profiles, separated by commas, that other sites may follow with a key of the
    right `replicate`: the labels that people gave, and ids of features, without the
    text of words and without the names of teachers. Empty: none.
    """
    follow: Words = ()
    """Sites whose labels POSTBAYES_PROFILE learns, separated by commas, each with a
    name and the address of its profile:
    `berlin=https://filter.berlin.example/profiles/default`. The source of its rows is
    `site:berlin`.
    """
    follow_key_file: Path | None = None
    """File with the keys for these sites, in lines `berlin: KEY`. It is read before
    each request.
    """
    follow_seconds: float = Field(10.0, ge=0.1, le=86_400)
    """Seconds between two requests to a site that has nothing new."""
    webhook: str | None = None
    """URL to which verdicts and feedback are posted, as signed JSON. Unset: off."""
    webhook_secret_file: Path | None = None
    """File that contains only the secret that signs the posts to POSTBAYES_WEBHOOK, of
    at least 16 characters.
    """
    webhook_events: Words = ("feedback", "spam", "unsure")
    """Events to post, separated by commas: `feedback`, and verdicts by decision,
    `spam`, `unsure` and `ham`.
    """
    smtp: str | None = None
    """Mail server through which `postbayes digest` sends its mail: `host:port`, such as
    `127.0.0.1:25`, without a login.
    """
    digest_from: str | None = None
    """Sender address of the mail of `postbayes digest`."""
    digest_url: str | None = None
    """URL at which users reach the pages of Postbayes, for the links of `postbayes
    digest`: `https://filter.example.org`.
    """
    digest_secret_file: Path | None = None
    """File that contains only the secret that signs the links of `postbayes digest`, of
    at least 16 characters. `serve` needs the same secret, and refuses links signed with
    another.
    """
    digest_days: float = Field(7.0, gt=0, le=365)
    """Days for which a link of a digest works."""
    digest_state: Path = Path("var/digest.json")
    """File in which `postbayes digest` records the time of each profile's last digest.
    """
    socket_mode: str = Field("0660", pattern=r"^0?[0-7]{3}$")
    """Permissions of the Unix sockets that the service listens on, in octal digits. A
    process needs write permission to connect.
    """
    busy_timeout: float = Field(5.0, gt=0, le=3600)
    """Seconds to wait for a database that another process has locked. A PostgreSQL
    server that does not respond for twice as long counts as hanging: until it responds,
    feedback is refused immediately.
    """
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Level of the log that `serve` writes to standard error. At `info`, each verdict
    has a line with its Message-ID, its recipients and one word; from `warning` on, the
    log has no data of mail.
    """
    log_format: Literal["text", "json"] = "text"
    """Format of the log: readable lines, or one JSON object per line."""
    traces: str | None = None
    """URL of an OpenTelemetry collector that gets a trace of each request, such as
    http://127.0.0.1:4318. Needs the extra `tracing`. Traces contain no data of mail.
    Unset: off.
    """


def _unknown(
    variables: Mapping[str, object], others: frozenset[str], place: str
) -> Iterator[str]:
    """Yield a sentence for each variable that looks like a setting, and is not one."""
    known = Settings.model_fields
    for variable in sorted({each.lower() for each in variables}):
        name = variable.removeprefix(PREFIX.lower())
        if name == variable or name in known or name in others:
            continue
        found = f"{PREFIX}{name.upper()}{place}"
        if PREFIX + name.upper() == FILE:
            yield f"{found} cannot name another file; set it in the environment"
        else:
            near = get_close_matches(name, known, n=1, cutoff=0.0)[0].upper()
            yield f"{found} is not a setting; the nearest is {PREFIX}{near}"


def _values(variables: Mapping[str, str | None]) -> dict[str, Any]:
    """Return the values of the variables that are settings, by the setting's name."""
    given = {variable.lower(): value for variable, value in variables.items()}
    named = {name: f"{PREFIX}{name}".lower() for name in Settings.model_fields}
    return {name: given[each] for name, each in named.items() if each in given}


def _read_lines(file: Path) -> dict[str, str | None]:
    """Return the variables of a settings file, no line of which would be skipped.

    The sentence does not quote the line, which may hold a password.

    Raises
    ------
    InvalidSetting
        If a line is not `NAME=value`: the setting would have its default.
    """
    text = file.read_text("utf-8")
    skipped = [
        each.original
        for each in parse_stream(StringIO(text))
        if each.error
        or (each.value is None and (each.key or "").upper().startswith(PREFIX))
    ]
    if skipped:
        # A statement begins with the blank lines above it.
        numbers = ", ".join(
            str(each.line + each.string[: -len(each.string.lstrip())].count("\n"))
            for each in skipped
        )
        raise InvalidSetting(
            f"the settings file {str(file)!r} has lines that are not NAME=value, or "
            f"have an unclosed quotation mark: {numbers}"
        )
    return dotenv_values(stream=StringIO(text))


def load_settings(**given: object) -> Settings:
    """Return the settings of the command line, the environment and the file.

    The first that has one wins.  The file is `postbayes.env` in the working directory
    or what `POSTBAYES_SETTINGS_FILE` names; its lines are as `POSTBAYES_PORT=8025`.

    Parameters
    ----------
    **given : object
        Settings that were given on the command line; None means not given.

    Raises
    ------
    InvalidSetting
        With one sentence per setting that cannot be used, or per variable and line of
        the file that has the prefix of a setting and is not one.
    """
    named = os.environ.get(FILE)
    file = Path(named or "postbayes.env")
    chosen = {name: value for name, value in given.items() if value is not None}
    lines: dict[str, str | None] = {}
    try:
        # Not after a look whether it is there: from Python 3.14 on, a file in a folder
        # that may not be searched looks like one that is missing.
        try:
            lines = _read_lines(file)
        except FileNotFoundError as error:
            if named is not None:
                msg = f"{FILE} names {named!r}, which does not exist"
                raise InvalidSetting(msg) from error
        wrong = [
            *_unknown(os.environ, _OF_OTHERS | {"settings_file"}, ""),
            *_unknown(lines, _OF_OTHERS, f" in {file}"),
        ]
        if wrong:
            raise InvalidSetting("; ".join(wrong))
        settings = Settings(**{**_values(lines), **_values(os.environ), **chosen})
    except UnicodeDecodeError as error:
        msg = f"the settings file {str(file)!r} is not in UTF-8"
        raise InvalidSetting(msg) from error
    except OSError as error:
        msg = f"the settings file {str(file)!r} cannot be read: {reason(error)}"
        raise InvalidSetting(msg) from error
    except ValidationError as error:
        sentences = "; ".join(
            PREFIX
            + "_".join(map(str, e["loc"])).upper()
            + _OF_PROGRAMMERS.sub("", f": {e['msg']}, got {e['input']!r}")
            for e in error.errors()
        )
        raise InvalidSetting(sentences) from error
    check_labels(settings.labels, settings.spam_labels)
    with naming(f"{PREFIX}PROFILE"):
        check_name(settings.profile)
    return settings


# What pydantic says around "should be a valid integer, got".
_OF_PROGRAMMERS: Final = re.compile(r"^: Input|, unable to [ \w]+(?=, got)")


@contextmanager
def naming(variable: str) -> Iterator[None]:
    """Begin the sentence of an `InvalidSetting` with the variable that caused it."""
    try:
        yield
    except InvalidSetting as error:
        raise InvalidSetting(f"{variable}: {error}") from error


MIN_SECRET: Final = 16
"""Bytes of a secret; fewer can be guessed from one signature."""


def is_web_address(text: str) -> bool:
    """Return whether a setting is the address of a page.

    Examples
    --------
    >>> each = "https://hooks.example/x", "https://", "ftp://hooks.example/", "https://["
    >>> [is_web_address(text) for text in each]
    [True, False, False, False]
    """
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def read_named(file: Path, variable: str) -> str:
    """Return the text of the file that a variable names.

    Raises
    ------
    InvalidSetting
        If it cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"{variable} names {str(file)!r}, which cannot be read: {reason(error)}"
        raise InvalidSetting(msg) from error


def read_secret(
    file: Path | None, variable: str, *, purpose: str, given: bool = False
) -> bytes:
    """Return the secret in a file, without the line end.

    Parameters
    ----------
    file : Path or None
        The file; None where the variable is unset.
    variable : str
        The variable that names it.
    purpose : str
        What it does, as the sentence for a missing one begins.
    given : bool
        Whether somebody else chose it, who decides about its length.

    Raises
    ------
    InvalidSetting
        If there is none, or it cannot be used.
    """
    least, how = (1, "") if given else (MIN_SECRET, " (openssl rand -hex 32)")
    if file is None:
        raise InvalidSetting(
            f"{purpose}: write it into a file{how} and name the file in {variable}"
        )
    try:
        found = file.read_bytes().strip()
    except OSError as error:
        msg = f"{variable} names {str(file)!r}, which cannot be read: {reason(error)}"
        raise InvalidSetting(msg) from error
    if len(found) < least:
        raise InvalidSetting(
            f"{variable} names {str(file)!r}, which has {len(found)} bytes; a secret "
            f"needs at least {least}{how}"
        )
    return found
