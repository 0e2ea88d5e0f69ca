"""Server of the rspamd door, an ASGI application, and its answers.

Failure policy: an error is answered with a status and a document with only `error`.
rspamc then ends with an error, and Haraka by default lets the mail pass
(docs/protocols/rspamd.md).
"""

from __future__ import annotations

import time
from collections import deque
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from starlette.exceptions import HTTPException as Refusal
from starlette.requests import Request
from starlette.responses import Response

from app import __version__, errors
from app.classifier.statement import Origin
from app.doors.mta import (
    REJECT,
    Flag,
    MailDoor,
    PointsAnswer,
    PointScale,
    marks,
    names,
)
from app.doors.rspamd import codec
from app.doors.serving import request as over_http
from app.doors.serving.request import (
    Site,
    caller_of,
    hung_up,
    require_place,
    take,
)
from app.doors.serving.threads import LEARNING, computing, in_thread
from app.ledger.entry import source_of
from app.mail.limits import MAX_BYTES
from app.services.feedback import Via
from app.services.profiles import label_of, learned
from app.zstd import MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from starlette.types import Receive, Scope, Send

    from app.access.rights import Principal
    from app.classifier.snapshot import Snapshot
    from app.classifier.specification import Specification
    from app.classifier.verdict import Action
    from app.doors.rspamd.codec import Ask
    from app.services.application import Application
    from app.services.classify import Classified

# rspamd's default thresholds (conf/actions.conf), which clients' configurations expect.
ADD_HEADER: Final = 6.0
# rspamd's action for each of ours. `soft reject` and `greylist` would need a memory of
# clients, and `rewrite subject` would change the message.
ACTIONS: Final[Mapping[Action, str]] = {
    "none": "no action",
    "add header": "add header",
    "quarantine": "quarantine",
    "reject": "reject",
}
# Removed together with ours: headers of rspamd and SpamAssassin that rules look for.
_FORGED: Final = frozenset(
    {"X-Spam", "X-Spam-Flag", "X-Spam-Level", "X-Spam-Score", "X-Spam-Status"}
)


def in_points(classified: Classified, action: Action) -> PointsAnswer:
    """Put an answer on the scale with rspamd's thresholds."""
    scale = PointScale.of(classified.specification, spam=ADD_HEADER, digits=2)
    return PointsAnswer(classified, action, scale)


def skipped(specification: Specification) -> dict[str, object]:
    """Return the answer for an empty message, which passes as in rspamd."""
    rejects = {} if specification.action.reject_from is None else {"reject": REJECT}
    limits = {**rejects, "add header": ADD_HEADER}
    return {
        "is_skipped": True,
        "score": 0.0,
        # As in rspamd: the points of the severest action in use.
        "required_score": max(limits.values()),
        "action": "no action",
        "thresholds": limits,
        "symbols": {},
        "messages": {},
        "message-id": "undef",
        "time_real": 0.0,
    }


def scanned(
    answer: PointsAnswer,
    *,
    message_id: str,
    seconds: float,
    flag: Flag,
    recipients: Mapping[str, PointsAnswer],
) -> dict[str, object]:
    """Return the document for a scan."""
    classified, action = answer.classified, answer.action
    verdict = classified.verdict
    found = skipped(classified.specification) | {
        "is_skipped": False,
        "score": answer.score,
        "action": ACTIONS[action],
        "symbols": {
            symbol.name: {
                "name": symbol.name,
                "score": symbol.score,
                "metric_score": symbol.score,
                "description": symbol.description,
                **({"options": list(symbol.options)} if symbol.options else {}),
            }
            for symbol in answer.symbols()
        },
        "message-id": message_id,
        "time_real": round(seconds, 6),
        # For OpenSMTPD's filter-rspamd 0.1.7: of an object with `value` and `order`,
        # it reads only the headers of authentication, and it compares the names of
        # headers to remove with regard to case.
        "milter": {
            "remove_headers": dict.fromkeys(sorted(names(flag) | _FORGED), 0),
            "add_headers": dict(marks(classified, action, flag)),
        },
        "postbayes": {
            "id": classified.observation.id,
            "decision": verdict.decision,
            "probability": verdict.probability,
            "profile": classified.profile,
            "revision": classified.revision,
        },
    }
    if action == "reject":
        sentence = f"This message looks like spam (id {classified.observation.id})"
        found["messages"] = {"smtp_message": sentence}
    if recipients:
        found["recipients"] = {
            name: {
                "profile": each.classified.profile,
                "score": each.score,
                "action": ACTIONS[each.action],
            }
            for name, each in recipients.items()
        }
    return found


# rspamd keeps 31 scan times.
TIMES: Final = 31
# In the order in which rspamc prints them.
COUNTED_ACTIONS: Final = (
    "reject",
    "soft reject",
    "rewrite subject",
    "add header",
    "greylist",
    "quarantine",
    "no action",
)


def stat(app: Application, seconds: Sequence[float]) -> dict[str, Any]:
    """Return the document of /stat: counters of all workers and of the profile.

    Parameters
    ----------
    app : Application
        The use cases.
    seconds : sequence of float
        Durations of the latest scans of the worker that answers.  Unit: seconds.
    """
    counted = app.tally.counts("postbayes_actions", "action")
    actions = {name: counted.get(ours, 0) for ours, name in ACTIONS.items()}
    total, wanted = sum(actions.values()), actions["no action"]
    requests = app.tally.counts("postbayes_door_requests", "door").get("rspamd", 0)
    taught = app.tally.counts("postbayes_door_learned", "door").get("rspamd", 0)
    snapshot = app.live.get(app.settings.profile).snapshot
    times: list[float | None] = [round(each, 6) for each in seconds]
    return {
        "version": __version__,
        "config_id": "postbayes",
        "uptime": int(app.tally.uptime()),
        "read_only": False,
        "scanned": total,
        "learned": taught,
        "actions": {name: actions.get(name, 0) for name in COUNTED_ACTIONS},
        "scan_times": times + [None] * (TIMES - len(times)),
        "spam_count": total - wanted,
        "ham_count": wanted,
        "connections": requests,
        "control_connections": requests,
        "total_learns": sum(learned(snapshot).values()),
        "statfiles": list(_statfiles(snapshot, sum(1 for _ in app.live))),
        "fuzzy_hashes": {},
    }


def metrics(found: Mapping[str, Any]) -> str:
    """Return the data of a /stat document as metrics with rspamd's names."""
    lines = [
        *_metric("rspamd_scanned", "Scanned messages.", found["scanned"]),
        *_metric("rspamd_learned", "Learned messages.", found["learned"]),
        *_metric("rspamd_spam", "Messages with an action.", found["spam_count"]),
        *_metric("rspamd_ham", "Messages without an action.", found["ham_count"]),
        *_metric("rspamd_learns", "Messages that are learned.", found["total_learns"]),
        "# TYPE rspamd_actions counter",
        "# HELP rspamd_actions Scanned messages by action.",
        *(
            f'rspamd_actions_total{{type="{name}"}} {number}'
            for name, number in found["actions"].items()
        ),
        "# EOF",
    ]
    return "".join(f"{line}\n" for line in lines)


def _statfiles(snapshot: Snapshot, profiles: int) -> Iterable[dict[str, object]]:
    """Yield an entry for each label, as rspamd has for each class."""
    features = sum(table.vocabulary for table in snapshot.tables.values())
    spam_labels = snapshot.specification.spam_labels
    for label, messages in learned(snapshot).items():
        yield {
            "revision": messages,
            "used": features,
            "total": features,
            "size": 0,
            "symbol": "BAYES_SPAM" if label in spam_labels else "BAYES_HAM",
            "type": "postbayes",
            "languages": 0,
            "users": profiles,
            "class": label,
        }


def _metric(name: str, text: str, value: int) -> tuple[str, str, str]:
    return f"# TYPE {name} counter", f"# HELP {name} {text}", f"{name}_total {value}"


# Input that cannot be used is 400 here, not 422, unless its error has another status.
STATUS: Final = {**over_http.STATUS, errors.InvalidInput: HTTPStatus.BAD_REQUEST}
ALREADY_REPORTED: Final = HTTPStatus.ALREADY_REPORTED
KEYS: Final = (b"password", b"authorization", b"x-api-key")
"""The headers that may contain a key; rspamd's clients use the first."""
OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Rspamd(MailDoor):
    """The door, over an application."""

    def __init__(self, application: Application) -> None:
        super().__init__(application)
        settings = application.settings
        self._site = Site((settings.host, *settings.host_names))
        self._seconds: deque[float] = deque(maxlen=TIMES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        self._application.tally.asked("rspamd")
        try:
            response = await self._answer(request)
        except Refusal as refusal:
            status = HTTPStatus(refusal.status_code)
            response = codec.failure(status, refusal.detail)
        except errors.PostbayesError as error:
            status = errors.answer_to(error, STATUS)
            self._log.warning("rspamd: %s: %s", request.url.path, error)
            gate = self._application.gate
            local = gate.needs_no_key(caller_of(scope, gate.proxies))
            response = codec.failure(status, str(error) if local else error.public)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        require_place(request.scope)
        self._site.check(request.method, request.scope["headers"])
        ask = codec.read(request.method, request.url.path, request.scope["headers"])
        gate = self._application.gate
        caller = caller_of(request.scope, gate.proxies, keys=KEYS)
        try:
            principal = gate.admit(caller, ask.right)
        except (errors.Unauthenticated, errors.Forbidden) as error:
            gone = "a client that is gone"
            client = "a local process" if caller.host is None else caller.host or gone
            self._log.warning(
                "rspamd: %s is not allowed to %s: %s", client, ask.kind, error
            )
            raise Refusal(HTTPStatus.UNAUTHORIZED, "Unauthorized") from error
        if ask.kind in {"scan", "learn"}:
            limit = self._application.settings.max_request_bytes
            raw = await take(request, limit=limit, kept=MAX_BYTES + 1)
            if ask.packed or raw.startswith(MAGIC):
                # 4 MiB in blocks of a byte take 0.1 s.
                unpack = partial(codec.unpacked, raw, cut=len(raw) > MAX_BYTES)
                raw = await computing(unpack, len(raw))
            if ask.kind == "scan":
                found = await self._scan(ask, raw, principal, partial(hung_up, request))
                return codec.packed(found) if ask.packs else found
            source = (
                source_of("rspamd", ask.user)
                if principal.names_sources
                else principal.name
            )
            return await self._learn(ask, raw, principal, source)
        if ask.right is not None:
            principal.require_all("statistics, which are of the whole service")
        return await self._tell(ask)

    async def _scan(
        self,
        ask: Ask,
        raw: bytes,
        principal: Principal,
        gone: Callable[[], Coroutine[Any, Any, None]],
    ) -> Response:
        app = self._application
        if not raw.strip():
            name = principal.require(app.recipients.answering(ask.recipients))
            return codec.document(skipped(app.live.find(name).specification))
        began = time.perf_counter()
        people = list(dict.fromkeys(ask.recipients))
        recipients = app.delivery.address(people, principal=principal)
        classify = partial(
            app.delivery.answer,
            recipients,
            raw,
            strongest=self._strongest,
            door="rspamd",
            origin=Origin(ask.sender, ask.client),
        )
        delivered = await computing(classify, len(raw) * max(1, len(people)), gone)
        seconds = time.perf_counter() - began
        several = delivered.recipients if len(people) > 1 else {}
        document = scanned(
            in_points(delivered.classified, delivered.action),
            message_id=codec.message_id(raw),
            seconds=seconds,
            flag=self._flag,
            recipients={
                each: in_points(theirs, theirs.action)
                for each, theirs in several.items()
            },
        )
        self._seconds.append(seconds)
        app.tally.acted("rspamd", delivered.action)
        return codec.document(document)

    async def _learn(
        self, ask: Ask, raw: bytes, principal: Principal, source: str
    ) -> Response:
        if not raw.strip():
            raise Refusal(HTTPStatus.BAD_REQUEST, "Empty body is not permitted")
        app = self._application
        profile = principal.require(app.recipients.shared(ask.recipients))
        label = principal.require_label(label_of(app.live.find(profile).row, ask.label))
        taught = await in_thread(
            LEARNING,
            app.feedback.teach,
            profile,
            raw,
            label=label,
            source=source,
            via=Via("rspamd", principal),
        )
        if taught.outcome.kind == "unchanged":
            sentence = (
                f"<{codec.message_id(raw)}> has been already learned as "
                f"{taught.outcome.label}, ignore it"
            )
            return codec.failure(ALREADY_REPORTED, sentence)
        app.tally.learned("rspamd")
        return codec.SUCCESS

    async def _tell(self, ask: Ask) -> Response:
        app = self._application
        if ask.kind == "ping":
            return codec.PONG
        if ask.kind == "ready":
            await in_thread(LEARNING, app.ping)
        if ask.kind in {"ready", "healthy"}:
            return codec.SUCCESS
        found = stat(app, self._seconds)
        if ask.kind == "metrics":
            return Response(metrics(found), media_type=OPENMETRICS)
        return codec.document(found)
