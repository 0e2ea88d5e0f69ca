"""Answers of the rspamd door: verdicts, and statistics of the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from app import __version__
from app.doors.mta import PointsAnswer, marks, ours
from app.services.profiles import learned

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from app.classifier.snapshot import Snapshot
    from app.classifier.specification import Specification
    from app.classifier.verdict import Action
    from app.services.application import Application
    from app.services.classify import Classified

# rspamd's default thresholds (conf/actions.conf), which clients' configurations expect.
ADD_HEADER: Final = 6.0
REJECT: Final = 15.0
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
    {"x-spam", "x-spam-flag", "x-spam-level", "x-spam-score", "x-spam-status"}
)


def in_points(classified: Classified, action: Action) -> PointsAnswer:
    """Put an answer on the scale with rspamd's thresholds."""
    return PointsAnswer.of(classified, action, spam=ADD_HEADER, digits=2)


def thresholds(specification: Specification) -> dict[str, float]:
    """Return the lowest points of each action."""
    rejects = {} if specification.action.reject_from is None else {"reject": REJECT}
    return {**rejects, "add header": ADD_HEADER}


def scanned(
    answer: PointsAnswer,
    *,
    message_id: str,
    seconds: float,
    flag: tuple[str, str] | None,
    recipients: Mapping[str, PointsAnswer],
) -> dict[str, object]:
    """Return the document for a scan.

    Parameters
    ----------
    answer : PointsAnswer
        The verdict for the message.
    message_id : str
        Message-ID of the message.
    seconds : float
        Duration of the scan.  Unit: seconds.
    flag : tuple of (str, str) or None
        The header that marks spam.
    recipients : mapping of str to PointsAnswer
        The verdict for each recipient, if there are several.
    """
    classified, action = answer.classified, answer.action
    verdict = classified.verdict
    limits = thresholds(classified.specification)
    found: dict[str, object] = {
        "is_skipped": False,
        "score": answer.score,
        # As in rspamd: the points of the severest action in use.
        "required_score": max(limits.values()),
        "action": ACTIONS[action],
        "thresholds": limits,
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
        "messages": {},
        "message-id": message_id,
        "time_real": round(seconds, 6),
        "milter": {
            "remove_headers": dict.fromkeys(sorted(ours(flag) | _FORGED), 0),
            "add_headers": {
                name: {"value": value, "order": 0}
                for name, value in marks(classified, action, flag)
            },
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


def skipped(specification: Specification) -> dict[str, object]:
    """Return the answer for an empty message, which passes as in rspamd."""
    limits = thresholds(specification)
    return {
        "is_skipped": True,
        "score": 0.0,
        "required_score": max(limits.values()),
        "action": "no action",
        "thresholds": limits,
        "symbols": {},
        "messages": {},
        "message-id": "undef",
        "time_real": 0.0,
    }


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
    scanned, wanted = sum(actions.values()), actions["no action"]
    requests = app.tally.counts("postbayes_door_requests", "door").get("rspamd", 0)
    taught = app.tally.counts("postbayes_door_learned", "door").get("rspamd", 0)
    snapshot = app.live.get(app.settings.profile).snapshot
    times: list[float | None] = [round(each, 6) for each in seconds]
    return {
        "version": __version__,
        "config_id": "postbayes",
        "uptime": int(app.tally.uptime()),
        "read_only": False,
        "scanned": scanned,
        "learned": taught,
        "actions": {name: actions.get(name, 0) for name in COUNTED_ACTIONS},
        "scan_times": times + [None] * (TIMES - len(times)),
        "spam_count": scanned - wanted,
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
