"""Answers to a scan: a verdict in the terms of rspamd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.doors.mta.headers import marks, ours
from app.doors.mta.points import Scale, symbols

if TYPE_CHECKING:
    from collections.abc import Mapping

    from app.classifier.specification import Specification
    from app.classifier.verdict import Action
    from app.services.classify import Classified

# rspamd's defaults (conf/actions.conf), which the configuration of clients expects.
ADD_HEADER: Final = 6.0
REJECT: Final = 15.0
# The action of rspamd for each of ours. `soft reject` and `greylist` would need
# a memory of clients, and `rewrite subject` makes another message.
ACTIONS: Final[Mapping[Action, str]] = {
    "none": "no action",
    "add header": "add header",
    "quarantine": "quarantine",
    "reject": "reject",
}
# Removed with ours: the headers of rspamd and SpamAssassin that rules look for.
_FORGED: Final = frozenset(
    {"x-spam", "x-spam-flag", "x-spam-level", "x-spam-score", "x-spam-status"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RspamdVerdict:
    """A verdict in points.

    Parameters
    ----------
    classified : Classified
        The answer of the service.
    scale : Scale
        Turns its log-odds into points.
    score : float
        Its points.
    action : Action
        The action for the message.
    """

    classified: Classified
    scale: Scale
    score: float
    action: Action

    @classmethod
    def of(cls, classified: Classified, action: Action) -> RspamdVerdict:
        """Return an answer of the service in points."""
        verdict = classified.verdict
        points = scale(classified.specification)
        score = points.score(verdict.log_odds, verdict.decision, action)
        return cls(classified=classified, scale=points, score=score, action=action)


def scale(specification: Specification) -> Scale:
    """Return the scale on which a profile has rspamd's thresholds."""
    return Scale.of(specification, spam=ADD_HEADER, digits=2)


def thresholds(scale: Scale) -> dict[str, float]:
    """Return the points from which each action is taken."""
    rejects = {} if scale.reject_from is None else {"reject": REJECT}
    return {**rejects, "add header": ADD_HEADER}


def scanned(
    answer: RspamdVerdict,
    *,
    message_id: str,
    seconds: float,
    flag: tuple[str, str] | None,
    recipients: Mapping[str, RspamdVerdict],
) -> dict[str, object]:
    """Return the document that answers a scan.

    Parameters
    ----------
    answer : RspamdVerdict
        The verdict for the message.
    message_id : str
        Of the message.
    seconds : float
        How long it took.
    flag : tuple of (str, str) or None
        The header that marks spam.
    recipients : mapping of str to RspamdVerdict
        The verdict for each recipient, where there are several.
    """
    classified, action = answer.classified, answer.action
    verdict = classified.verdict
    limits = thresholds(answer.scale)
    found: dict[str, object] = {
        "is_skipped": False,
        "score": answer.score,
        # As rspamd: the points of the severest action that is ever taken.
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
            for symbol in symbols(classified, answer.scale, answer.score)
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


def skipped(scale: Scale) -> dict[str, object]:
    """Return the answer about a message of no bytes: rspamd lets it pass."""
    limits = thresholds(scale)
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
