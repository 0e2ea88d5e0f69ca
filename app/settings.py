"""Settings of an operator: every `POSTBAYES_*` variable, in one place."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

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
# Settings of earlier versions, and what is in their place.
_REMOVED: Final = {
    "spam_threshold": "set POSTBAYES_HAM_COST instead",
    "ham_threshold": "set POSTBAYES_HAM_COST instead",
    "teach_from": "set POSTBAYES_KEYLESS_FROM instead",
    "rspamd_password": "make a key with `postbayes keys create` and send that as the "
    "password",
}
# Variables that other programs read: `deploy/dovecot/postbayes-teach`,
# `docker-compose.yml` and the tests.
_OF_OTHERS: Final = frozenset(
    {
        *("api_key", "url", "queue", "publish", "publish_smtp", "publish_imap"),
        *("publish_prometheus", "publish_grafana"),
        *("require_postgres", "require_clients", "require_mail", "require_browser"),
    }
)


def _split(value: object) -> object:
    """Read a comma-separated list as the tuple that it stands for."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]


def _threshold(value: object) -> object:
    """Read a threshold as `postbayes policy` does."""
    if not isinstance(value, str):
        return value
    try:
        return threshold_of(value)
    except ValueError:
        # The sentence of pydantic: a ValueError would be told with its class.
        kind = "threshold"
        raise PydanticCustomError(kind, f"say {SAYS}, or never") from None


Threshold = Annotated[float | None, BeforeValidator(_threshold)]


class Settings(BaseSettings):
    """The settings, each from the variable `POSTBAYES_` and its name.

    A file of the same lines (``POSTBAYES_PORT=8025``) is read as well:
    `postbayes.env` in the working directory, or the file that
    `POSTBAYES_SETTINGS_FILE` names.  The environment wins over the file.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: Any,  # noqa: ARG003  pydantic-settings calls it so
        init_settings: Any,
        env_settings: Any,
        dotenv_settings: Any,
        file_secret_settings: Any,
    ) -> tuple[Any, ...]:
        """Return the sources of settings, whose names are checked.

        Raises
        ------
        InvalidSetting
            If a variable or a line of the file has the prefix of a setting and is
            none.
        """
        known = _OF_OTHERS | {"settings_file"}
        place = f"stands in {dotenv_settings.env_file}"
        wrong = [
            *_unknown(env_settings.env_vars, known, "is set"),
            *_unknown(dotenv_settings.env_vars, _OF_OTHERS, place),
        ]
        if wrong:
            raise InvalidSetting("; ".join(wrong))
        return init_settings, env_settings, dotenv_settings, file_secret_settings

    database_url: str = Field(
        "sqlite:///var/postbayes.db",
        description="Database of the ledger and the counts: "
        "`sqlite:///relative/path`, `sqlite:////absolute/path` or "
        "`postgresql://user:password@host/name`.",
    )
    host: str = Field("127.0.0.1", description="Address that `serve` listens on.")
    host_names: Words = Field(
        (),
        description="Names, separated by commas, under which clients reach the "
        "service over HTTP: `filter.example.org`. Its addresses, `localhost` and names "
        "without a dot need not be listed. Requests under any other name are refused "
        "with 403: a web page whose own name resolves to this machine could read and "
        "teach the filter through the browser of somebody who may.",
    )
    port: int = Field(8025, ge=0, le=65535, description="Port that `serve` listens on.")
    workers: int = Field(
        1,
        ge=1,
        le=256,
        description="Processes that `serve` runs on its one port. Each holds the "
        "profiles that it is asked for in memory, and follows the others within a "
        "second.",
    )
    profile: str = Field(
        "default",
        description="Profile that is created at the first start and used by requests "
        "that name no profile.",
    )
    aliases: Path | None = Field(
        None,
        description="A file of lines `alias: profile`: recipients for whom a profile "
        "of another name answers. An alias is an address, a user's name or "
        "`@domain`. The file is read again when it changes.",
    )
    labels: Words = Field(
        LABELS,
        description="Labels of a new profile, separated by commas.",
    )
    spam_labels: Words = Field(
        SPAM_LABELS,
        description="The labels that stand for unwanted mail.",
    )
    text_views: Words = Field(
        SHIPPED_VIEWS,
        description="Views of the text that the verdict uses, separated by commas: "
        "`words`, `headers`, `pairs` of neighbouring words, `grams` of four bytes, and "
        "`corrections`: the words, headers and pairs of the messages that this view "
        "itself had wrong or nearly so. "
        "Grams more than double the stored size of a message. A view that is added "
        "later knows only the messages that are learned from then on.",
    )
    levels: bool = Field(
        default=True,
        description="A profile of an address or a domain backs off to the profiles "
        "above it: the counts of the user, the domain and the site make one verdict, "
        "so that a new profile knows what the site knows, and each lesson of its own "
        "counts more than one of the site. Off: the most personal profile that knows "
        "both sides answers alone.",
    )
    profile_bytes: int = Field(
        512 * MEBIBYTE,
        ge=MEBIBYTE,
        le=2**50,
        description="Most memory that the counts of all profiles take in a process. A "
        "profile is loaded when somebody asks for it; where this is not enough, those "
        "that nobody has asked for longest leave the memory. `POSTBAYES_PROFILE` stays "
        "whatever its size.",
    )
    profile_minutes: float = Field(
        60.0,
        gt=0,
        le=1e6,
        description="Minutes after which a profile that nobody asks for leaves the "
        "memory. The next request loads it again.",
    )
    max_request_bytes: int = Field(
        50 * MEBIBYTE,
        ge=1024,
        description="A larger request body is refused with 413. The default is "
        "rspamd's `max_message`, and five times Postfix's `message_size_limit`.",
    )
    store_words: bool = Field(
        default=True,
        description="Store the text of words beside their counts, so that a "
        "person can browse the tables. Off: only 64-bit hashes are stored, and those "
        "of a new profile are keyed (POSTBAYES_KEY_FILE).",
    )
    key_file: Path = Field(
        Path("var/postbayes.key"),
        description="File with the key of the hashes, which is made with mode 0600 "
        "when POSTBAYES_STORE_WORDS=false makes the first profile. That profile cannot "
        "be read without it, and no backup of the database holds it: keep a copy apart "
        "from both. All processes of a database need the same key.",
    )
    scored_days: float = Field(
        14.0,
        ge=0,
        le=36_500,
        description="Days for which a scored message can be taught by its id alone. "
        "0 stores none.",
    )
    scored_rows: int = Field(
        50_000,
        ge=0,
        le=2**31,
        description="Most scored messages of a profile that are stored for teaching by "
        "id (about 7 kB each).",
    )
    scored_bytes: int = Field(
        1024 * MEBIBYTE,
        ge=MEBIBYTE,
        le=2**50,
        description="Most bytes of them together; the oldest go first. The largest "
        "message takes about 1 MB.",
    )
    history_days: float = Field(
        30.0,
        ge=0,
        le=36_500,
        description="Days for which the history keeps the line of a verdict: time, "
        "sender, subject, recipients, size, verdict and its strongest reasons. Without "
        "POSTBAYES_STORE_WORDS a line has no text. 0 keeps no history, and neither "
        "does POSTBAYES_SCORED_DAYS=0.",
    )
    history_rows: int = Field(
        100_000,
        ge=0,
        le=2**31,
        description="Most lines of the history of a profile (about 0.5 kB each); the "
        "oldest go first.",
    )
    vector_days: float = Field(
        180.0,
        ge=0,
        le=36_500,
        description="How long the ledger keeps the features of a message, and so how "
        "long it can be undone, moved or forgotten. 0 keeps them for ever, at about "
        "7 kB a message.",
    )
    ham_cost: float = Field(
        9.0,
        ge=1,
        le=1e12,
        description="How many missed spam messages a lost ham message is worth. Mail "
        "is *spam* where spam is that many times as probable as ham, *ham* where ham "
        "is that many times as probable as spam, and *unsure* between the two. A "
        "profile may have a cost and thresholds of its own (`postbayes policy`).",
    )
    half_life_months: float | None = Field(
        None,
        ge=0.25,
        le=1200,
        description="Months after which a learned message counts half; after eleven "
        "times as many it no longer counts. Unset: all messages count alike. "
        "Mail that `learn` reads counts as learned today, whatever its dates. A "
        "half-life pays where people change their minds about mail that stays the "
        "same, and costs where it is shorter than 3 months (experiment 0070).",
    )
    autolearn_from: Threshold = Field(
        None,
        description="Learn the filter's own verdicts from this distance of the "
        "log-odds from 0 up, in nats or as a probability such as `99.9%`. Unset: "
        "never. Not below the spam threshold. "
        "It ranked worse where people taught one message in twenty, and mostly helped "
        "where they had taught 500 and stopped (experiment 0054). Never "
        "before 20 messages of each side are known. `postbayes undo --source auto` "
        "takes all of it back.",
    )
    autolearn_per_day: int = Field(
        200,
        ge=1,
        le=1_000_000,
        description="Messages that a profile may learn by itself on a day, in UTC.",
    )
    teacher_per_day: int | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="Messages that one source may teach a profile on a day, in UTC; "
        "more are refused with 429. Unset: any number.",
    )
    suspects: Literal["log", "refuse"] = Field(
        "log",
        description="What becomes of a source that contradicts verdicts of which the "
        "filter was sure, ten at least and half of those that it contradicts, while "
        "others teach the profile as much, and more sources than there are such ones "
        "teach at least ten messages without doing so: `log` names it in the log, with "
        "the command that takes its lessons back; `refuse` also refuses further ones "
        "with 403.",
    )
    trusted_sources: Words = Field(
        (),
        description="Sources that are neither suspects nor bounded by "
        "POSTBAYES_TEACHER_PER_DAY, separated by commas, such as a spam trap.",
    )
    quarantine_from: Threshold = Field(
        None,
        description="Quarantine spam from this log-odds up, in nats or as a "
        "probability such as `99.9%`, at the doors that can. Unset: never. Not below "
        "the spam threshold.",
    )
    reject_from: Threshold = Field(
        None,
        description="Reject spam from this log-odds up, in nats or as a probability "
        "such as `99.9%`, at the doors that can. Unset: never. Not below the threshold "
        "of the quarantine.",
    )
    spam_header: str = Field(
        "X-Spam-Flag: YES",
        description="Header that is added to spam, beside those of Postbayes, for "
        "rules that look for it. Empty: none is added.",
    )
    explain_mail: bool = Field(
        default=True,
        description="Whether mail servers get the reasons of a verdict: the header "
        "X-Postbayes-Explanation, and the words in the reports of spamd and rspamd.",
    )
    milter: str | None = Field(
        None,
        description="Address of the milter door: `host:port`, `inet:host:port` or "
        "`unix:/path`. Unset: closed.",
    )
    milter_skip_authenticated: bool = Field(
        default=True,
        description="Let the mail of clients that logged in pass the milter unread: "
        "a filter does not learn the mail that its own users send.",
    )
    milter_authserv_id: str | None = Field(
        None,
        description="Name of this server, such as `mail.example.org`, under which the "
        "milter also writes its verdict into an `Authentication-Results` header (RFC "
        "8601). Headers of that name in incoming mail are removed. Unset: neither.",
    )
    authserv_id: Words = Field(
        (),
        description="Names of this site's mail servers, separated by commas, whose "
        "`Authentication-Results` headers (RFC 8601) are believed, as OpenDKIM and "
        "OpenDMARC write them before Postbayes sees a message. The servers have to "
        "remove headers under these names from incoming mail. Empty: no sender is "
        "ever verified, and correspondents are neither counted nor known.",
    )
    correspondents: bool = Field(
        default=True,
        description="Count the people to whom users write, as digests; mail whose "
        "verified author is one of them gets evidence of ham. It needs "
        "POSTBAYES_AUTHSERV_ID.",
    )
    spamd: str | None = Field(
        None,
        description="Address of the spamd door: `host:port`, such as "
        "`127.0.0.1:783`, or `unix:/path`. Unset: closed.",
    )
    rspamd: str | None = Field(
        None,
        description="Address of the rspamd door: `host:port`, such as "
        "`127.0.0.1:11334`, or `unix:/path`. Unset: closed.",
    )
    keyless_from: Words = Field(
        LOOPBACK,
        description="Addresses and networks, separated by commas, whose clients need "
        "no key and may do everything; clients of Unix sockets need none either. All "
        "others need a key (`postbayes keys create`). A request that a proxy passes on "
        "is that of its client, and never keyless behind a proxy that "
        "POSTBAYES_PROXIES does not name. Empty: everybody needs a key.",
    )
    proxies: Words = Field(
        (),
        description="Addresses and networks of the proxies before this service, "
        "separated by commas. The client of a proxy is the last address of "
        "`X-Forwarded-For` that is not one of them; forwarded addresses from anybody "
        "else are ignored.",
    )
    rate_per_key: float = Field(
        1000.0,
        ge=0,
        le=1e6,
        description="Requests a second that a key may make of each worker; twice as "
        "many may come at once. Further ones get 429. 0: no limit.",
    )
    rate_per_address: float = Field(
        1000.0,
        ge=0,
        le=1e6,
        description="Requests a second that an address, or an IPv6 network of 64 bits, "
        "may make of each worker; twice as many may come at once. Clients that need no "
        "key are not limited. 0: no limit.",
    )
    session_hours: float = Field(
        8.0,
        gt=0,
        le=8760,
        description="Hours after the last page until a person has to sign in again.",
    )
    session_days: float = Field(
        14.0,
        gt=0,
        le=365,
        description="Days after which a person has to sign in again in any case.",
    )
    sign_in_header: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9-]+$",
        description="Header with the name of a person whom a proxy has signed in, such "
        "as `Remote-User`. It counts only from POSTBAYES_PROXIES, which have to remove "
        "it from the requests of others, and for people of `postbayes people`. Unset: "
        "none.",
    )
    oidc_issuer: str | None = Field(
        None,
        description="Address of a provider of OpenID Connect at which the people of "
        "`postbayes people` may sign in, such as https://id.example.org/realms/staff; "
        "it needs the extra `oidc`. Unset: none.",
    )
    oidc_client_id: str | None = Field(
        None, description="Name of this service at that provider."
    )
    oidc_client_secret_file: Path | None = Field(
        None,
        description="File that holds the secret that the provider has given this "
        "service, and nothing else.",
    )
    oidc_claim: Literal["email", "preferred_username"] = Field(
        "email",
        description="What the provider says of people by which they are known here: "
        "`email`, if it is verified, or `preferred_username`, if nobody can choose "
        "that of another there.",
    )
    event_days: float = Field(
        365.0,
        ge=0,
        le=36_500,
        description="Days for which events are kept: who made a key, changed a policy, "
        "signed in (`postbayes events`). 0 keeps them for ever.",
    )
    imap_host: str | None = Field(
        None, description="IMAP server of the mailbox that `postbayes imap` follows."
    )
    imap_port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="Port of the IMAP server. Unset: 993 with TLS, 143 without.",
    )
    imap_security: Literal["tls", "starttls", "none"] = Field(
        "tls",
        description="Security of the connection to the IMAP server. `none` is for a "
        "server on the same machine.",
    )
    imap_user: str | None = Field(None, description="User of the mailbox.")
    imap_password: str | None = Field(
        None,
        description="Password of the mailbox; a file is safer.",
    )
    imap_password_file: Path | None = Field(
        None,
        description="File that holds the password of the mailbox and nothing else.",
    )
    imap_junk: str | None = Field(
        None,
        description="Folder of the unwanted mail. Unset: the one that the server marks "
        "as junk (SPECIAL-USE, RFC 6154), or `Junk` if it marks none.",
    )
    imap_inbox: str = Field("INBOX", description="Folder of the wanted mail.")
    imap_folders: Words = Field(
        (),
        description="Further folders and their labels, separated by commas: "
        "`Newsletter=newsletter`. A message that appears there is taught, unless "
        "Postbayes itself gave it that label; where the label is `ham`, as in "
        "`Projects=ham`, only one that was in a folder of another label.",
    )
    imap_marks: bool = Field(
        False,
        description="Learn from the marks `$Junk` and `$NotJunk` as well, which mail "
        "programs also give by filters of their own.",
    )
    imap_state: Path = Field(
        Path("var/imap.json"),
        description="File in which `postbayes imap` remembers the messages that it has "
        "seen: hashes of headers, and no text. Each mailbox needs a file of its own.",
    )
    webhook: str | None = Field(
        None,
        description="URL that verdicts and feedback are posted to, as JSON and signed. "
        "Unset: nowhere.",
    )
    webhook_secret_file: Path | None = Field(
        None,
        description="File that holds the secret that signs what POSTBAYES_WEBHOOK "
        "gets, and nothing else; 16 characters at least.",
    )
    webhook_events: Words = Field(
        ("feedback", "spam", "unsure"),
        description="Events that are posted, separated by commas: `feedback`, and "
        "verdicts by their decision, `spam`, `unsure` and `ham`.",
    )
    smtp: str | None = Field(
        None,
        description="Mail server that `postbayes digest` hands its mail to: "
        "`host:port`, such as `127.0.0.1:25`, without a login.",
    )
    digest_from: str | None = Field(
        None, description="Address that the mail of `postbayes digest` comes from."
    )
    digest_url: str | None = Field(
        None,
        description="Address under which users reach the page of Postbayes, for the "
        "links of `postbayes digest`: `https://filter.example.org`.",
    )
    digest_secret_file: Path | None = Field(
        None,
        description="File that holds the secret that signs the links of `postbayes "
        "digest`, and nothing else; 16 characters at least. `serve` needs the same "
        "one. Links that were signed by another one are refused.",
    )
    digest_days: float = Field(
        7.0, gt=0, le=365, description="Days for which a link of a digest works."
    )
    digest_state: Path = Field(
        Path("var/digest.json"),
        description="File in which `postbayes digest` remembers when each profile had "
        "its last one.",
    )
    socket_mode: str = Field(
        "0660",
        pattern=r"^0?[0-7]{3}$",
        description="Permissions of the Unix sockets that doors listen on, in octal "
        "digits. A process that may write to a socket may connect.",
    )
    busy_timeout: float = Field(
        5.0,
        gt=0,
        le=3600,
        description="Seconds to wait for a database that another process has "
        "locked. A PostgreSQL that is silent for twice as long is taken to hang: "
        "until it answers again, feedback is refused at once.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info",
        description="Level of the log that `serve` writes to standard error. At `info` "
        "each verdict has a line, with its Message-ID, its recipients and one word; "
        "from `warning` on the log holds nothing of mail.",
    )
    log_format: Literal["text", "json"] = Field(
        "text",
        description="Format of the log: lines for people, or one JSON object per line.",
    )
    traces: str | None = Field(
        None,
        description="Address of an OpenTelemetry collector that gets a trace of each "
        "request, such as http://127.0.0.1:4318; it needs the extra `tracing`. Traces "
        "hold nothing of mail. None by default.",
    )


def _unknown(
    variables: Mapping[str, object], others: frozenset[str], place: str
) -> Iterator[str]:
    """Yield a sentence for each variable that looks like a setting and is none."""
    known = Settings.model_fields
    for variable in sorted(variables):
        name = variable.lower().removeprefix(PREFIX.lower())
        if name == variable.lower() or name in known or name in others:
            continue
        found = f"{PREFIX}{name.upper()} {place}, and "
        if name in _REMOVED:
            yield f"{found}is gone; {_REMOVED[name]}"
        elif PREFIX + name.upper() == FILE:
            yield f"{found}a file cannot name another; set it in the environment"
        else:
            near = get_close_matches(name, known, n=1, cutoff=0.0)[0].upper()
            yield f"{found}there is no such setting; the nearest is {PREFIX}{near}"


def load_settings(**given: object) -> Settings:
    """Return the settings of the environment, the file and the command line.

    Parameters
    ----------
    **given : object
        Settings that were given on the command line; None means not given.

    Raises
    ------
    InvalidSetting
        With one sentence per setting that cannot be used.
    """
    named = os.environ.get(FILE)
    if named is not None and not Path(named).is_file():
        raise InvalidSetting(f"{FILE} names {named!r}, which is not a file")
    chosen = {name: value for name, value in given.items() if value is not None}
    try:
        settings = Settings(
            _env_file=named or "postbayes.env",
            **chosen,  # type: ignore[arg-type]
        )
    except UnicodeDecodeError as error:
        msg = f"the settings file {named or 'postbayes.env'!r} is not in UTF-8"
        raise InvalidSetting(msg) from error
    except ValidationError as error:
        sentences = "; ".join(
            f"{PREFIX}{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}, "
            f"got {e['input']!r}"
            for e in error.errors()
        )
        raise InvalidSetting(sentences) from error
    check_labels(settings.labels, settings.spam_labels)
    check_name(settings.profile)
    return settings


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
