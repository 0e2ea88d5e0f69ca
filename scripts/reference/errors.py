"""Page docs/reference/errors.md: errors, their causes and remedies."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from app import errors
from app.doors.cli.main import COMMANDS, EXIT
from app.doors.http.errors import RETRY_AFTER, problem_type
from app.doors.serving.request import STATUS
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
OFFERED: Final = "GET /profiles/{name}/ledger"
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
    OFFERED,
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
_STORED: Final = tuple(
    name for name in COMMANDS if name not in {"evaluate", "lab", "imap", "forwarded"}
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
    *(PROFILE, CREATE, CHANGE, FIGURES, WORD, OFFERED, LEDGER, READY),
    *(SET_PASSWORD, OWN_PASSWORD),
    *(HISTORY, LINES, REVIEW, OVERVIEW),
    *(LISTS, SET_ENTRIES, REMOVE_ENTRY, WRITTEN, FORGET_WRITTEN),
    *(KEYS, MAKE_KEY, REVOKE, PEOPLE, ADD_PERSON, REMOVE_PERSON, EVENTS),
)
ADVICE: Final[dict[ErrorClass, Advice]] = {
    errors.InvalidInput: Advice(
        "Correct the input as the error describes. With `--url`, the error is the "
        "answer of the service.",
        operations=(
            *(FEEDBACK, FORGET, CREATE),
            *(LISTS, SET_ENTRIES, REMOVE_ENTRY, WRITTEN, FORGET_WRITTEN),
            *(MAKE_KEY, ADD_PERSON, SET_PASSWORD, OWN_PASSWORD),
        ),
        commands=(
            "learn",
            "classify",
            "feedback",
            "evaluate",
            "profiles",
            "lists",
            "keys",
            "people",
            "correspondents",
            "backup",
            "export",
            "import",
            "imap",
            "digest",
        ),
    ),
    errors.EmptyMessage: Advice(
        "Send the message whole, headers and body, or the JSON that the route takes. "
        "An empty file in a mail folder needs no action: `learn` skips it.",
        operations=READING,
        commands=("classify", "feedback"),
    ),
    errors.MessageTooLarge: Advice(
        "Send raw messages as `message/rfc822`; only the first 4 MiB are read, and "
        "the rest may be left out. `POSTBAYES_MAX_REQUEST_BYTES` is the limit, and 8 "
        "MiB that of JSON.",
        operations=READING,
    ),
    errors.BatchTooLarge: Advice(
        "Send the messages in several batches; larger batches are not faster.",
        operations=(BATCH,),
    ),
    errors.SlowRequest: Advice(
        "The whole body must arrive within 60 seconds. Send it again.",
        operations=READING,
    ),
    errors.MalformedRequest: Advice(
        "The error names the field or query parameter. Unknown names are refused, "
        "so that misspellings are noticed, and the error lists the known names. The "
        "status is 422 for a query parameter, and 400 for the body.",
        operations=ASKING,
    ),
    errors.InvalidSelection: Advice(
        "Give at least one of ids, source, from and until. Times are in ISO 8601 and, "
        "over HTTP, need a time zone.",
        operations=(UNDO,),
        commands=("undo",),
    ),
    errors.UnsupportedContentType: Advice(
        "Send `Content-Type: message/rfc822` or `application/json`. With curl, `-d` "
        "alone sends the body as a form; in Python, `requests` sends the type with "
        "`json=`, but not with `data=json.dumps(…)`.",
        operations=READING,
    ),
    errors.Unauthenticated: Advice(
        "Send a key as `Authorization: Bearer`, as `X-API-Key`, or as the password of "
        "Basic authentication; a command takes it from `POSTBAYES_API_KEY`. "
        "`postbayes keys create` creates a key, and [access.md](../access.md) "
        "describes the rights.",
        operations=ASKING,
        commands=("classify", "feedback"),
    ),
    errors.TooManyRequests: Advice(
        "Wait for the seconds in `Retry-After`. `POSTBAYES_RATE_PER_KEY` and "
        "`POSTBAYES_RATE_PER_ADDRESS` set the rates; after ten wrong keys, an address "
        "may try one more every 6 s.",
        operations=EVERY,
        commands=("classify", "feedback"),
    ),
    errors.UnknownKey: Advice(
        "`postbayes keys list` shows the keys, including revoked ones.",
        operations=(REVOKE,),
        commands=("keys",),
    ),
    errors.UnknownEntry: Advice(
        "`postbayes lists list` shows the entries of a profile.",
        operations=(REMOVE_ENTRY,),
        commands=("lists",),
    ),
    errors.UnknownPerson: Advice(
        "`postbayes people list` shows the people.",
        operations=(REMOVE_PERSON, SET_PASSWORD),
        commands=("people",),
    ),
    errors.NameTaken: Advice(
        "Choose another name. The name of a revoked key can be used again.",
        operations=(MAKE_KEY, ADD_PERSON),
        commands=("keys", "people"),
    ),
    errors.Forbidden: Advice(
        "The error names what is missing. For a right, a profile or a label, use "
        "another key ([access.md](../access.md)). If the service does not know the "
        "host name of the request, use its address, or add the name to "
        "`POSTBAYES_HOST_NAMES`. Pages of other sites may not change anything.",
        operations=EVERY,
        commands=("classify", "feedback"),
    ),
    errors.MissingLabel: Advice(
        "Give `?label=` or `label` in the JSON; `--label` on the command line.",
        operations=(FEEDBACK,),
        commands=("learn",),
    ),
    errors.UnknownLabel: Advice(
        "Use one of the labels in the error. The labels of a profile are chosen when "
        "it is created.",
        operations=(FEEDBACK, LEDGER),
        commands=("learn", "feedback", "evaluate", "import"),
    ),
    errors.UnreadableMessage: Advice(
        "The message is skipped, and later messages are read. This is a defect of "
        "Postbayes: please report it, with the message if possible. A service answers "
        "such a message with 500, without a problem type.",
        commands=("learn", "classify", "feedback", "evaluate", "imap"),
    ),
    errors.InvalidObservation: Advice(
        "Correct the option that the error names. In a service, where no request can "
        "cause this error, it is a defect of Postbayes: please report it.",
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
            "import",
        ),
    ),
    errors.UnwritableFile: Advice(
        "Make room on the disk, or choose a folder that exists and can be written. "
        "An export or a backup leaves no part of the file.",
        commands=("evaluate", "lab", "backup", "export"),
    ),
    errors.MalformedTable: Advice(
        "The error names the row, the column or the option.",
        commands=("lab",),
    ),
    errors.MalformedDump: Advice(
        "Write the dump as [portable.md](../portable.md#from-other-filters) "
        "describes. If it contains nothing usable, learn from the mail folders "
        "instead.",
        commands=("import",),
    ),
    errors.MalformedExport: Advice(
        "Copy it or export it again; nothing was imported. An export in a newer "
        "format needs a newer Postbayes.",
        commands=("import",),
    ),
    errors.MalformedIndex: Advice(
        "Correct the line with the number in the error: a label, a blank and a path.",
        commands=("learn", "evaluate"),
    ),
    errors.InvalidPolicy: Advice(
        "The error names the two contradictory thresholds. Thresholds must rise in "
        "the order ham, spam, quarantine, reject; `postbayes policy` shows them.",
        operations=(CHANGE,),
        commands=("policy",),
    ),
    errors.InvalidSetting: Advice(
        "Correct the setting that the error names; [settings.md](settings.md) lists "
        "the allowed values.",
        operations=(CREATE, MAKE_KEY, ADD_PERSON),
        commands=(*_STORED, "evaluate", "imap"),
    ),
    errors.UnknownProfile: Advice(
        "`postbayes profiles` lists the profiles; `postbayes profiles create` creates "
        "one, which a running service uses within a second.",
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
            OFFERED,
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
            "fold",
            "prune",
            "figures",
            "teachers",
            "word",
            "audit",
            "profiles",
            "policy",
            "lists",
            "correspondents",
            "digest",
            "export",
            "import",
        ),
    ),
    errors.UnknownMessage: Advice(
        "To teach it, send the message itself. An id is known for "
        "`POSTBAYES_SCORED_DAYS` after scoring and, once learned, as long as the "
        "ledger exists. A forgotten message is unknown.",
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
        "The features of learned messages are kept for `POSTBAYES_VECTOR_DAYS`; until "
        "then, messages can be undone, relabelled or forgotten. If an undo is "
        "refused, the error gives the time from which an undo is possible.",
        operations=(FEEDBACK, FORGET, UNDO),
        commands=("feedback", "undo"),
    ),
    errors.Irreversible: Advice(
        "First undo the operation that removed the counts. The operation that wrote "
        "them can be repeated.",
        operations=(UNDO,),
        commands=("undo", "prune"),
    ),
    errors.Unconfirmed: Advice(
        "Request the same undo with `dry_run` or `--dry-run`, check what would "
        "change, and repeat it with the token, as `confirm` or `--confirm`. The token "
        "is valid for the same profile, selection and state of the ledger.",
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
        "`--replace`, as the error suggests. A site that followed another ledger "
        "begins with its first row by itself.",
        operations=(OFFERED,),
        commands=("import",),
    ),
    errors.Overloaded: Advice(
        f"Send the request again, after the {RETRY_AFTER} seconds of `Retry-After`. "
        "Nothing was stored. If it happens often, use fewer connections at once, or "
        "more workers (docs/scaling.md).",
        operations=EVERY,
    ),
    errors.DatabaseUnavailable: Advice(
        "Do what the error says. If it names no remedy, try again; over HTTP, after "
        f"the {RETRY_AFTER} seconds of `Retry-After`. Nothing was stored unless the "
        "error says that it may have been, or that it is recorded and will be carried "
        "out; sending feedback twice is always safe. "
        "With `--url`, the error can also mean that the service is unavailable.",
        operations=_DATABASE,
        commands=(*_STORED, "imap"),
    ),
    errors.DatabaseUnprepared: Advice(
        "If the tables are of an older version, run `postbayes migrate`. Otherwise "
        "the error names the table or the schema: ask the administrator of the "
        "database to GRANT the right, correct the search_path, or restore a backup. A "
        "service accepts feedback again without a restart. Scoring goes on meanwhile.",
        operations=_DATABASE,
        commands=_STORED,
    ),
    errors.ProfileReplaced: Advice(
        f"Send it again in a second; over HTTP, after the {RETRY_AFTER} seconds of "
        "`Retry-After`. A service loads a replaced profile within half a second, or "
        "at the next feedback, which waits for it; feedback gets this answer only if "
        "the profile is replaced a second time.",
        operations=(FEEDBACK, FORGET, UNDO),
        commands=("learn", "feedback", "undo", "import"),
    ),
    errors.ProfileLoading: Advice(
        f"Send it again; over HTTP, after the {RETRY_AFTER} seconds of `Retry-After`. "
        "The profile was not in memory, and loading it takes longer than the 5 s that "
        "a request waits. Requests for a recipient are answered by the next profile "
        "above.",
        operations=(CLASSIFY, MESSAGE, FEEDBACK, FORGET, PROFILE, CHANGE, WORD),
    ),
    errors.MailServerUnavailable: Advice(
        "Check POSTBAYES_SMTP and the log of the mail server. The next `postbayes "
        "digest` includes the messages of the failed one.",
        commands=("digest",),
    ),
    errors.ClusterUnavailable: Advice(
        "Check the scheduler and the workers of the Dask cluster, and run the same "
        "command again: learned parts are kept.",
        commands=("learn",),
    ),
    errors.SiteUnavailable: Advice(
        "Only the log and the metric `postbayes_followed_up` have this error: "
        "docs/following.md has the remedy for each sentence. The site is asked again "
        "after 1 to 60 seconds.",
    ),
    errors.MailboxUnavailable: Advice(
        "Check POSTBAYES_IMAP_HOST and the server. `postbayes imap` retries by "
        "itself, at growing intervals; with `--once` it ends.",
        commands=("imap",),
    ),
    errors.SignInUnavailable: Advice(
        "The log has the reason. Check POSTBAYES_OIDC_ISSUER and the provider; "
        "meanwhile, people with a password can sign in, and keys work. Only the "
        "sign-in page returns this error.",
    ),
    errors.InconsistentCounts: Advice(
        "Run `postbayes audit`, keep a copy of the database, and report the error. "
        "The tables may have been changed by hand.",
        commands=("learn", "classify", "feedback", "audit", "export", "import"),
    ),
    errors.CorruptVector: Advice(
        "Check the disk, and repair the profile as "
        "[troubleshooting.md](../troubleshooting.md#damaged-features) describes. "
        "Please report the error.",
        operations=(FEEDBACK,),
        commands=("learn", "classify", "feedback", "audit", "export", "import"),
    ),
    errors.DatabaseDamaged: Advice(
        "Check the disk, and restore a backup, as "
        "[operating.md](../operating.md#backup-and-restore) describes; or correct "
        "`POSTBAYES_DATABASE_URL` if its file is not a database. Nothing was stored. "
        "A running service continues to score from memory.",
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
Over HTTP, every error is a problem document (RFC 9457) of the type
`application/problem+json`: `type`, `title`, `status` and `detail`. Programs should
distinguish errors by `type`, which is stable; `detail` is a sentence for people, with
the wrong value and the remedy. A 503 has a `Retry-After` of {RETRY_AFTER} seconds. On
the command line the same sentence goes to standard error, and the exit code is that of
`sysexits.h`.
"""

_OTHERS: Final = """
## Other answers

A path or method that does not exist gets 404 or 405, as a problem document of the
type `about:blank`.

While 256 requests are being processed, further ones get 503 as plain text. An
unexpected failure gets 500 as plain text: it is a defect of Postbayes, and its
traceback is on standard error.
"""


def page() -> str:
    """Return the page."""
    classes = list(raised())
    missing = [cls.__name__ for cls in classes if cls not in ADVICE]
    if missing:
        raise LookupError(f"ADVICE lacks {', '.join(missing)}")
    overview = table(
        ("problem type", "status", "exit code", "when"),
        (
            (
                f"[`{problem_type(cls)}`](#{short(cls)})",
                ", ".join(str(s.value) for s in statuses(cls)) or "none",
                f"{exit_code(cls)}" if ADVICE[cls].commands else "none",
                _meaning(cls),
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
    # A history also has cursors of its own.
    parsed = operation is None or operation in {*READING, HISTORY}
    return [status, wrong] if parsed else [wrong]


def exit_code(cls: ErrorClass) -> int:
    """Return the exit code of an error."""
    return next(EXIT[each] for each in cls.__mro__ if each in EXIT)


def _meaning(cls: ErrorClass) -> str:
    """Return the first sentence of an error's docstring."""
    return str(cls.__doc__).partition("\n")[0]


def short(cls: ErrorClass) -> str:
    """Return the last word of the problem type."""
    return problem_type(cls).rpartition(":")[2]


def _section(cls: ErrorClass) -> str:
    advice = ADVICE[cls]
    where = [
        _listed(advice.operations, EVERY, "operation", ""),
        _listed(advice.commands, tuple(COMMANDS), "command", "postbayes "),
    ]
    lines = [
        f"## {short(cls)}",
        "",
        f"`{cls.__name__}`: {_meaning(cls)}",
        sentences(advice.todo),
    ]
    if any(where):
        lines += ["", f"Comes from {'; '.join(filter(None, where))}."]
    return "\n".join(lines)


def _listed(
    names: tuple[str, ...], every: tuple[str, ...], kind: str, prefix: str
) -> str:
    """Return names as code, or the shorter list of those that are missing."""
    missing = [f"`{name}`" for name in every if name not in names]
    if len(missing) > len(names):
        return ", ".join(f"`{prefix}{name}`" for name in names)
    if not missing:
        return f"every {kind}"
    return f"every {kind} except {', '.join(missing)}"
