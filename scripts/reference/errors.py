"""Page docs/reference/errors.md: errors, their causes and remedies."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from app import errors
from app.doors.cli.main import EXIT
from app.doors.http.errors import RETRY_AFTER, STATUS, problem_type
from scripts.reference.markdown import document, sentences, table

if TYPE_CHECKING:
    from collections.abc import Iterator

ErrorClass = type[errors.PostbayesError]

CLASSIFY: Final = "POST /classify"
BATCH: Final = "POST /classify/batch"
MESSAGE: Final = "POST /message"
FEEDBACK: Final = "POST /feedback"
FORGET: Final = "DELETE /feedback/{id}"
UNDO: Final = "POST /feedback/undo"
PROFILES: Final = "GET /profiles"
PROFILE: Final = "GET /profiles/{name}"
CREATE: Final = "POST /profiles"
CHANGE: Final = "PATCH /profiles/{name}"
FIGURES: Final = "GET /profiles/{name}/figures"
WORD: Final = "GET /words/{word}"
LEDGER: Final = "GET /ledger"
HISTORY: Final = "GET /history"
LINES: Final = "GET /history/{id}"
REVIEW: Final = "GET /review"
OVERVIEW: Final = "GET /overview"
SETTINGS: Final = "GET /settings"
READY: Final = "GET /readyz"

METRICS: Final = "GET /metrics"
LISTS: Final = "GET /profiles/{name}/lists"
SET_ENTRIES: Final = "POST /profiles/{name}/lists"
REMOVE_ENTRY: Final = "DELETE /profiles/{name}/lists"
WRITTEN: Final = "GET /profiles/{name}/correspondents"
FORGET_WRITTEN: Final = "DELETE /profiles/{name}/correspondents"
KEYS: Final = "GET /keys"
MAKE_KEY: Final = "POST /keys"
REVOKE: Final = "DELETE /keys/{name}"
PEOPLE: Final = "GET /people"
ADD_PERSON: Final = "POST /people"
REMOVE_PERSON: Final = "DELETE /people/{name}"
SET_PASSWORD: Final = "PUT /people/{name}/password"  # noqa: S105  an address
OWN_PASSWORD: Final = "POST /password"  # noqa: S105  an address
EVENTS: Final = "GET /events"
SENT: Final = "POST /sent"
# They read a body.
READING: Final = (
    CLASSIFY,
    BATCH,
    MESSAGE,
    FEEDBACK,
    UNDO,
    CREATE,
    CHANGE,
    SET_ENTRIES,
    MAKE_KEY,
    ADD_PERSON,
    SET_PASSWORD,
    OWN_PASSWORD,
    SENT,
)
# Every route but the health checks asks a right.
ASKING: Final = (
    CLASSIFY,
    BATCH,
    MESSAGE,
    FEEDBACK,
    FORGET,
    UNDO,
    PROFILES,
    PROFILE,
    CREATE,
    CHANGE,
    FIGURES,
    WORD,
    LEDGER,
    HISTORY,
    LINES,
    REVIEW,
    OVERVIEW,
    SETTINGS,
    METRICS,
    LISTS,
    SET_ENTRIES,
    REMOVE_ENTRY,
    WRITTEN,
    FORGET_WRITTEN,
    KEYS,
    MAKE_KEY,
    REVOKE,
    PEOPLE,
    ADD_PERSON,
    REMOVE_PERSON,
    SET_PASSWORD,
    OWN_PASSWORD,
    EVENTS,
    SENT,
)
# Every route asks where a request comes from.
EVERY: Final = (*ASKING, "GET /healthz", READY)

# All commands that open the database.
_STORED: Final = (
    "serve",
    "learn",
    "classify",
    "feedback",
    "undo",
    "prune",
    "figures",
    "word",
    "why",
    "audit",
    "profiles",
    "policy",
    "lists",
    "keys",
    "people",
    "correspondents",
    "events",
    "digest",
    "backup",
    "export",
    "import",
)


@dataclass(frozen=True, slots=True)
class Advice:
    """The advice for a client that gets an error.

    Parameters
    ----------
    todo : str
        The remedy, in whole sentences.
    operations : tuple of str
        The HTTP operations that may answer with it.
    commands : tuple of str
        The commands that may end with it.
    """

    todo: str
    operations: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


# Inner nodes of the tree that are errors themselves.
_RAISED_ITSELF: Final = (errors.InvalidInput, errors.DatabaseUnavailable)

# Those that read the database, or load a profile.
_DATABASE: Final = (
    *(CLASSIFY, MESSAGE, FEEDBACK, FORGET, UNDO),
    *(PROFILE, CREATE, CHANGE, FIGURES, WORD, LEDGER, READY),
    *(SET_PASSWORD, OWN_PASSWORD),
    *(HISTORY, LINES, REVIEW, OVERVIEW),
    *(LISTS, SET_ENTRIES, REMOVE_ENTRY, WRITTEN, FORGET_WRITTEN),
    *(KEYS, MAKE_KEY, REVOKE, PEOPLE, ADD_PERSON, REMOVE_PERSON, EVENTS),
)
ADVICE: Final[dict[ErrorClass, Advice]] = {
    errors.InvalidInput: Advice(
        "Correct the input as the sentence asks. With `--url` the sentence is the "
        "answer of the service.",
        commands=(
            "learn",
            "classify",
            "feedback",
            "backup",
            "import",
            "imap",
            "digest",
        ),
    ),
    errors.EmptyMessage: Advice(
        "Send the message whole, headers and body. An empty file in a mail folder "
        "needs no action: `learn` passes over it.",
        operations=READING,
        commands=("classify", "feedback"),
    ),
    errors.MessageTooLarge: Advice(
        "Send raw messages as `message/rfc822`, of which the first 4 MiB are read "
        "and the rest may be left out. JSON has to fit into memory: 8 MiB at most. "
        "`POSTBAYES_MAX_REQUEST_BYTES` is the limit of raw messages.",
        operations=READING,
    ),
    errors.BatchTooLarge: Advice(
        "Send the messages in several batches; larger batches are not faster.",
        operations=(BATCH,),
    ),
    errors.SlowRequest: Advice(
        "The whole body has to arrive within 60 seconds. Send it again.",
        operations=READING,
    ),
    errors.MalformedRequest: Advice(
        "The sentence names the field or the query parameter. Unknown names are "
        "refused, so that a misspelt one is noticed, and the sentence lists the known "
        "ones. The status is 422 where a query parameter is wrong, and 400 "
        "where the body is.",
        operations=(
            *READING,
            FORGET,
            PROFILES,
            PROFILE,
            FIGURES,
            WORD,
            LEDGER,
            HISTORY,
            LINES,
            REVIEW,
            OVERVIEW,
            SETTINGS,
            LISTS,
            REMOVE_ENTRY,
            WRITTEN,
            FORGET_WRITTEN,
        ),
    ),
    errors.InvalidSelection: Advice(
        "Give at least one of ids, source, from and until. Times are ISO 8601; over "
        "HTTP they need a time zone.",
        operations=(UNDO,),
        commands=("undo",),
    ),
    errors.UnsupportedContentType: Advice(
        "Send `Content-Type: message/rfc822` or `application/json`. "
        "With curl, `-d` alone declares the body to be a form.",
        operations=READING,
    ),
    errors.Unauthenticated: Advice(
        "Send a key as `Authorization: Bearer`, as `X-API-Key`, or as the password of "
        "Basic authentication; a command takes it from `POSTBAYES_API_KEY`. "
        "`postbayes keys create` makes one, and [access.md](../access.md) has the "
        "rights.",
        operations=ASKING,
        commands=("classify", "feedback"),
    ),
    errors.TooManyRequests: Advice(
        "Wait for the seconds of `Retry-After`. `POSTBAYES_RATE_PER_KEY` and "
        "`POSTBAYES_RATE_PER_ADDRESS` set the rates; after ten wrong keys an address "
        "is answered one more every 6 s.",
        operations=EVERY,
        commands=("classify", "feedback"),
    ),
    errors.UnknownKey: Advice(
        "`postbayes keys list` names the keys, and those that are revoked.",
        operations=(REVOKE,),
        commands=("keys",),
    ),
    errors.UnknownEntry: Advice(
        "`postbayes lists list` shows the entries of a profile.",
        operations=(REMOVE_ENTRY,),
        commands=("lists",),
    ),
    errors.UnknownPerson: Advice(
        "`postbayes people list` names those who may sign in.",
        operations=(REMOVE_PERSON, SET_PASSWORD),
        commands=("people",),
    ),
    errors.NameTaken: Advice(
        "Choose another name. That of a revoked key is free again.",
        operations=(MAKE_KEY, ADD_PERSON),
        commands=("keys", "people"),
    ),
    errors.Forbidden: Advice(
        "The sentence says what is lacking. For a right, a profile or a label use "
        "another key ([access.md](../access.md)). Under a name that the service does "
        "not know, ask by its address, or have its operator list the name in "
        "`POSTBAYES_HOST_NAMES`. A web page of another site is refused wherever it "
        "could change something.",
        operations=EVERY,
        commands=("classify", "feedback"),
    ),
    errors.MissingLabel: Advice(
        "Give `?label=` or `label` in the JSON; `--label` on the command line.",
        operations=(FEEDBACK,),
        commands=("learn",),
    ),
    errors.UnknownLabel: Advice(
        "Use one of the labels that the sentence lists. The labels of a profile are "
        "chosen when it is made.",
        operations=(FEEDBACK, LEDGER),
        commands=("learn", "feedback", "evaluate", "import"),
    ),
    errors.UnreadableMessage: Advice(
        "The message is passed over, and those after it are read. It shows a defect of "
        "Postbayes: please report it, with the message if you may. A service answers "
        "500 to such a message, without a problem type.",
        commands=("learn", "classify", "feedback", "evaluate", "imap"),
    ),
    errors.InvalidObservation: Advice(
        "Correct the option that the sentence names. No request causes it: at a "
        "service it is a defect of Postbayes, so please report it.",
        commands=("lab",),
    ),
    errors.UnreadableSource: Advice(
        "Check the path and its permissions.",
        commands=(
            "learn",
            "classify",
            "feedback",
            "evaluate",
            "lab",
            "backup",
            "export",
            "import",
        ),
    ),
    errors.MalformedTable: Advice(
        "The sentence names the row, the column or the option.",
        commands=("lab",),
    ),
    errors.MalformedDump: Advice(
        "Write the dump as [portable.md](../portable.md#from-other-filters) describes. "
        "If it holds nothing that can be used, learn from the mail folders instead.",
        commands=("import",),
    ),
    errors.MalformedExport: Advice(
        "Copy or export it again; nothing of it was imported. An export of a newer "
        "format needs a newer Postbayes.",
        commands=("import",),
    ),
    errors.MalformedIndex: Advice(
        "Correct the line whose number the sentence gives: a label, a blank and a "
        "path.",
        commands=("learn", "evaluate"),
    ),
    errors.InvalidPolicy: Advice(
        "The sentence names the threshold and the one that it contradicts. Thresholds "
        "rise in the order ham, spam, quarantine, reject; `postbayes policy` shows "
        "them.",
        operations=(CHANGE,),
        commands=("policy",),
    ),
    errors.InvalidSetting: Advice(
        "Correct the setting that the sentence names; [settings.md](settings.md) has "
        "the values.",
        operations=(CREATE,),
        commands=(*_STORED, "evaluate", "imap"),
    ),
    errors.UnknownProfile: Advice(
        "`postbayes profiles` lists the profiles; `--create` makes one, and a running "
        "service notices it within a second.",
        operations=(
            CLASSIFY,
            BATCH,
            MESSAGE,
            FEEDBACK,
            FORGET,
            UNDO,
            PROFILE,
            CHANGE,
            LISTS,
            SET_ENTRIES,
            REMOVE_ENTRY,
            WRITTEN,
            FORGET_WRITTEN,
            FIGURES,
            WORD,
            LEDGER,
            HISTORY,
            LINES,
            REVIEW,
            OVERVIEW,
            METRICS,
        ),
        commands=(
            "learn",
            "classify",
            "feedback",
            "undo",
            "why",
            "prune",
            "audit",
            "policy",
            "digest",
            "export",
            "import",
        ),
    ),
    errors.UnknownMessage: Advice(
        "To teach it, send the message itself. An id is remembered for "
        "`POSTBAYES_SCORED_DAYS` after scoring, and as long as there is a ledger after "
        "learning. A forgotten message is unknown, and a message that is not learned "
        "need not be forgotten.",
        operations=(FEEDBACK, FORGET, UNDO, LEDGER, LINES),
        commands=("feedback", "undo", "why"),
    ),
    errors.UnknownSource: Advice(
        "The query under *Feedback by source* in [operating.md](../operating.md) "
        "lists the sources.",
        operations=(UNDO,),
        commands=("undo",),
    ),
    errors.Expired: Advice(
        "The features of learned messages are kept for `POSTBAYES_VECTOR_DAYS`, and "
        "only so long can they be undone, moved or forgotten. Where an undo is "
        "refused, the sentence gives the time from which an undo is possible.",
        operations=(FEEDBACK, FORGET, UNDO),
        commands=("feedback", "undo"),
    ),
    errors.Irreversible: Advice(
        "First undo the work that took the counts away. The work that wrote them can "
        "be repeated.",
        operations=(UNDO,),
        commands=("undo", "prune"),
    ),
    errors.Unconfirmed: Advice(
        "Ask for the same undo with `dry_run` or `--dry-run`, look at what would "
        "change, and repeat it with the token, as `confirm` or `--confirm`. The token "
        "is of the profile, the selection, and the ledger as the dry run saw it.",
        operations=(UNDO,),
        commands=("undo",),
    ),
    errors.ProfileExists: Advice(
        "Choose another name, or the labels of the existing profile.",
        operations=(CREATE,),
        commands=("profiles",),
    ),
    errors.OtherProfile: Advice(
        "Import it into another profile with `--profile`, or replace this one with "
        "`--replace`; the sentence says which of the two helps.",
        commands=("import",),
    ),
    errors.DatabaseUnavailable: Advice(
        f"Try again; over HTTP after the {RETRY_AFTER} seconds of `Retry-After`. "
        "Nothing of the request is stored, unless the sentence says that it may be, or "
        "that it is recorded and will be carried out; sending a feedback twice "
        "is safe in any case. "
        "With `--url` the error also means that the service is away.",
        operations=_DATABASE,
        commands=(*_STORED, "imap"),
    ),
    errors.DatabaseUnprepared: Advice(
        "An older version made the tables: run `postbayes migrate`. Otherwise the "
        "sentence names the table or the schema. Ask the administrator of the "
        "database to GRANT the right, correct the search_path, or restore a backup; a "
        "service takes feedback again without a restart. Scoring goes on meanwhile.",
        operations=_DATABASE,
        commands=_STORED,
    ),
    errors.ProfileReplaced: Advice(
        f"Send it again in a second; over HTTP after the {RETRY_AFTER} seconds of "
        "`Retry-After`. A service loads a profile that `postbayes import` has replaced "
        "as soon as somebody teaches it, or within half a second; feedback waits for "
        "that, and gets this answer if the profile is replaced a second time.",
        operations=(FEEDBACK, FORGET, UNDO),
        commands=("learn", "feedback", "undo", "import"),
    ),
    errors.ProfileLoading: Advice(
        f"Send it again; over HTTP after the {RETRY_AFTER} seconds of `Retry-After`. "
        "The profile was not in memory, and to load it takes longer than the 5 s that "
        "a request waits. It is loaded meanwhile. Requests for a recipient are "
        "answered by the next profile above.",
        operations=(CLASSIFY, MESSAGE, FEEDBACK, FORGET, PROFILE, CHANGE, WORD),
    ),
    errors.MailServerUnavailable: Advice(
        "Check POSTBAYES_SMTP and the log of the mail server. The next `postbayes "
        "digest` lists what this one could not send.",
        commands=("digest",),
    ),
    errors.ClusterUnavailable: Advice(
        "Check the scheduler and the workers of the Dask cluster, and run the same "
        "command again: parts that are learned stay so.",
        commands=("learn",),
    ),
    errors.MailboxUnavailable: Advice(
        "Check POSTBAYES_IMAP_HOST and the server. `postbayes imap` tries again "
        "by itself, at longer and longer intervals; with `--once` it ends.",
        commands=("imap",),
    ),
    errors.SignInUnavailable: Advice(
        "The log has the reason. Check POSTBAYES_OIDC_ISSUER and the provider; until "
        "it is back, people with a password can sign in, and keys go on working. The "
        "sign-in page answers with it, and no other route.",
    ),
    errors.InconsistentCounts: Advice(
        "Run `postbayes audit`, keep a copy of the database, and report the error. "
        "Somebody may have changed the tables by hand.",
        commands=("learn", "classify", "feedback", "audit", "export", "import"),
    ),
    errors.CorruptVector: Advice(
        "Check the disk, and restore a backup. Please report the error.",
        operations=(FEEDBACK,),
        commands=("learn", "classify", "feedback", "audit", "export", "import"),
    ),
    errors.DatabaseDamaged: Advice(
        "Check the disk, and restore a backup, as "
        "[operating.md](../operating.md#backup-and-restore) describes; or correct "
        "`POSTBAYES_DATABASE_URL`, where it names a file that is no database. Nothing "
        "of the request is stored. A service that runs goes on scoring from memory.",
        operations=_DATABASE,
        commands=_STORED,
    ),
    errors.DatabaseTooNew: Advice(
        "Start the newer version again, or restore a backup from before the upgrade.",
        commands=_STORED,
    ),
}
"""Advice on each class that is raised."""

_INTRODUCTION: Final = f"""
Over HTTP every error is a problem document (RFC 9457) of the type
`application/problem+json`: `type`, `title`, `status` and `detail`. Distinguish errors
by `type`, a stable name; `detail` is a sentence for people, with the offending
value and the remedy. A 503 has a `Retry-After` of {RETRY_AFTER}
seconds. On the command line the same sentence goes to standard error, and the exit
code is that of `sysexits.h`.
"""

_OTHERS: Final = """
## Other answers

A path or method that does not exist gets 404 or 405, as a problem document of the
type `about:blank`.

Where 256 requests are worked on, a further one gets 503 as plain text. An unexpected
failure is 500 as plain text: it is a defect of Postbayes, and its traceback is on
standard error.
"""


def page() -> str:
    """Return the page."""
    classes = list(raised())
    missing = [cls.__name__ for cls in classes if cls not in ADVICE]
    if missing:
        msg = f"ADVICE lacks {', '.join(missing)}"
        raise LookupError(msg)
    overview = table(
        ("problem type", "status", "exit code", "when"),
        (
            (
                f"[`{problem_type(cls)}`](#{short(cls)})",
                ", ".join(str(s.value) for s in statuses(cls)) or "none",
                f"{exit_code(cls)}" if ADVICE[cls].commands else "none",
                str(cls.__doc__),
            )
            for cls in classes
        ),
    )
    others = "\n\n".join(sentences(part) for part in _OTHERS.strip().split("\n\n"))
    return document(
        "Errors",
        sentences(_INTRODUCTION),
        overview,
        *(_section(cls) for cls in classes),
        others,
    )


def raised() -> Iterator[ErrorClass]:
    """Yield the classes that are raised, in the order of the tree."""
    todo: list[ErrorClass] = [errors.PostbayesError]
    while todo:
        cls = todo.pop(0)
        todo = [*cls.__subclasses__(), *todo]
        # The other inner nodes of the tree only group.
        if not cls.__subclasses__() or cls in _RAISED_ITSELF:
            yield cls


def statuses(cls: ErrorClass, operation: str | None = None) -> list[HTTPStatus]:
    """Return the statuses of an error, or those of it in one operation."""
    operations = ADVICE[cls].operations
    if not operations or (operation is not None and operation not in operations):
        return []
    status = next(STATUS[each] for each in cls.__mro__ if each in STATUS)
    if cls is not errors.MalformedRequest:
        return [status]
    # A wrong query parameter, which the framework finds.
    wrong = HTTPStatus.UNPROCESSABLE_ENTITY
    without_body = {
        *(FORGET, PROFILES, PROFILE, FIGURES, WORD, LEDGER, SETTINGS),
        *(LINES, REVIEW, OVERVIEW, LISTS, REMOVE_ENTRY, WRITTEN, FORGET_WRITTEN),
    }
    return [wrong] if operation in without_body else [status, wrong]


def exit_code(cls: ErrorClass) -> int:
    """Return the exit code of an error."""
    return next(EXIT[each] for each in cls.__mro__ if each in EXIT)


def short(cls: ErrorClass) -> str:
    """Return the last word of the problem type."""
    return problem_type(cls).rpartition(":")[2]


def _section(cls: ErrorClass) -> str:
    advice = ADVICE[cls]
    where = [f"`{name}`" for name in advice.operations]
    where += [f"`postbayes {name}`" for name in advice.commands]
    lines = [
        f"## {short(cls)}",
        "",
        f"`{cls.__name__}`: {cls.__doc__}",
        sentences(advice.todo),
    ]
    if where:
        lines += ["", f"Comes from {', '.join(where)}."]
    return "\n".join(lines)
