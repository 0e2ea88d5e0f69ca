"""Statistics for `rspamc stat` and rspamd's dashboards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from app.services.profiles import ProfileState

# rspamd keeps 31 scan times.
TIMES: Final = 31
# In the order in which rspamc prints them.
ACTIONS: Final = (
    "reject",
    "soft reject",
    "rewrite subject",
    "add header",
    "greylist",
    "quarantine",
    "no action",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The counters of all workers since the start, and of the profile.

    Parameters
    ----------
    actions : mapping of str to int
        Messages that were scanned, by the action in rspamd's words.
    learned : int
        Messages that were learned through the door.
    requests : int
        Requests that were answered.
    seconds : sequence of float
        How long the latest scans of the worker that was asked took.
    uptime : float
        Unit: seconds.
    state : ProfileState
        The site's profile.
    profiles : int
        How many profiles there are.
    """

    actions: Mapping[str, int]
    learned: int
    requests: int
    seconds: Sequence[float]
    uptime: float
    state: ProfileState
    profiles: int

    @property
    def _scanned(self) -> int:
        return sum(self.actions.values())

    @property
    def _wanted(self) -> int:
        return self.actions.get("no action", 0)

    def stat(self) -> dict[str, object]:
        """Return the document of /stat."""
        times: list[float | None] = [round(each, 6) for each in self.seconds]
        return {
            "version": __version__,
            "config_id": "postbayes",
            "uptime": int(self.uptime),
            "read_only": False,
            "scanned": self._scanned,
            "learned": self.learned,
            "actions": {name: self.actions.get(name, 0) for name in ACTIONS},
            "scan_times": times + [None] * (TIMES - len(times)),
            "spam_count": self._scanned - self._wanted,
            "ham_count": self._wanted,
            "connections": self.requests,
            "control_connections": self.requests,
            "total_learns": sum(self.state.messages.values()),
            "statfiles": list(_statfiles(self.state, self.profiles)),
            "fuzzy_hashes": {},
        }

    def metrics(self) -> str:
        """Return the metrics under rspamd's names."""
        scanned, wanted = self._scanned, self._wanted
        learns = sum(self.state.messages.values())
        lines = [
            *_metric("rspamd_scanned", "Scanned messages.", scanned),
            *_metric("rspamd_learned", "Learned messages.", self.learned),
            *_metric("rspamd_spam", "Messages with an action.", scanned - wanted),
            *_metric("rspamd_ham", "Messages without an action.", wanted),
            *_metric("rspamd_learns", "Messages that are learned.", learns),
            "# TYPE rspamd_actions counter",
            "# HELP rspamd_actions Scanned messages by action.",
            *(
                f'rspamd_actions_total{{type="{name}"}} {self.actions.get(name, 0)}'
                for name in ACTIONS
            ),
            "# EOF",
        ]
        return "".join(f"{line}\n" for line in lines)


def _statfiles(state: ProfileState, profiles: int) -> Iterable[dict[str, object]]:
    """Yield one entry for each label, as rspamd has one for each class."""
    features = sum(view.features for view in state.views.values())
    for label, messages in state.messages.items():
        yield {
            "revision": messages,
            "used": features,
            "total": features,
            "size": 0,
            "symbol": "BAYES_SPAM" if label in state.spam_labels else "BAYES_HAM",
            "type": "postbayes",
            "languages": 0,
            "users": profiles,
            "class": label,
        }


def _metric(name: str, text: str, value: int) -> tuple[str, str, str]:
    return f"# TYPE {name} counter", f"# HELP {name} {text}", f"{name}_total {value}"
