"""Exchanges: requests on fixed messages and their answers, run in process."""

from __future__ import annotations

import json
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastapi.testclient import TestClient

from app.doors.http.app import create_app
from app.services.application import Application
from app.settings import Settings
from scripts.reference.markdown import block

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi import FastAPI

URL: Final = "http://127.0.0.1:8025"
RAW: Final = "message/rfc822"
JSON: Final = "application/json"

# What depends on the clock: when a profile was made, and which months were
# learned in, as far as they are folded already.
MOMENTS: Final[dict[str, Any]] = {
    "created_at": "2026-01-31T12:00:00Z",
    "time": "2026-01-31T12:00:00Z",
    "begin": "2026-01-31T12:00:00Z",
    "last": "2026-01-31T12:00:00Z",
    "folded_revision": 2,
    "unfolded": 0,
    "epochs": [
        {
            "epoch": 202601,
            "label": label,
            "occurrences": messages,
            "messages": messages,
            "learned": 1,
        }
        for label, messages in (("ham", 0), ("spam", 1))
    ],
    # The log of 3: 1.5 of 2 spam and 0.5 of 2 ham.
    "months": [{"epoch": 202601, "weight": 1.0, "log_odds": 1.099}],
}

SPAM: Final = """\
From: Lucky Draw <win@prizes.example>
Subject: You are a winner

Claim your free prize money today: http://prizes.example/claim
"""

HAM: Final = """\
From: Ann <ann@example.org>
Subject: Lunch on Friday

Shall we meet at noon? I have the minutes of the last meeting for you.
"""

NEW: Final = """\
From: Prize Office <office@prizes.example>
Subject: Your free money

Your prize money is waiting. Claim it today.
"""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request; a body is a raw message, or JSON where it begins with a brace."""

    method: str
    path: str
    body: str = ""

    @property
    def media_type(self) -> str:
        """What the body is."""
        return JSON if self.body.startswith("{") else RAW

    def command(self) -> str:
        """Return the request as a shell command."""
        words = ["curl -sS"]
        if self.method in {"DELETE", "PATCH", "PUT"}:
            words.append(f"-X {self.method}")
        words.append(f"'{URL}{self.path}'")
        if self.body:
            words.append(f"-H 'Content-Type: {self.media_type}'")
        if not self.body:
            return " ".join(words)
        if self.media_type == JSON:
            return " ".join([*words, f"-d '{self.body}'"])
        return " ".join([*words, "--data-binary @- <<'END'\n"]) + self.body + "END"


def taught(label: str, message: str) -> Exchange:
    """Return the request that teaches a message."""
    return Exchange("POST", f"/feedback?label={label}", message)


BEFORE: Final = (taught("spam", SPAM), taught("ham", HAM))
"""What the service is taught before the examples."""

_ID: Final = "7a846c218c4fcd6d25b1e88d5fde0574"
_SCORED: Final = "2916cfa651635430764ea1347538e811"

EXAMPLES: Final[dict[tuple[str, str], tuple[Exchange, ...]]] = {
    ("POST", "/classify"): (
        Exchange("POST", "/classify?explain=2", NEW),
        Exchange(
            "POST",
            "/classify?explain=0&recipient=bob@example.org",
            '{"from": "Bob <bob@example.org>", "subject": "Minutes", '
            '"body": "See you at the meeting on Friday."}',
        ),
    ),
    ("POST", "/feedback"): (
        Exchange("POST", "/feedback", f'{{"id": "{_ID}", "label": "spam"}}'),
        Exchange("POST", "/feedback?label=ham&source=ann@example.org", SPAM),
        Exchange("POST", "/feedback?label=junk", NEW),
    ),
    ("POST", "/message"): (
        Exchange("POST", "/message?explain=1", '{"subject": "Free money at noon"}'),
    ),
    ("DELETE", "/feedback/{id}"): (Exchange("DELETE", f"/feedback/{_ID}"),),
    ("POST", "/classify/batch"): (
        Exchange(
            "POST",
            "/classify/batch",
            '{"messages": [{"subject": "Minutes", "body": "See you at the meeting."}, '
            '{"massage": "Claim your prize"}]}',
        ),
    ),
    ("GET", "/profiles"): (Exchange("GET", "/profiles?limit=10"),),
    ("GET", "/profiles/{name}"): (Exchange("GET", "/profiles/default"),),
    ("POST", "/profiles"): (
        Exchange("POST", "/profiles", '{"name": "desk@example.org", "kind": "mail"}'),
    ),
    ("PATCH", "/profiles/{name}"): (
        Exchange(
            "PATCH",
            "/profiles/default",
            '{"ham_cost": 20, "reject_from": "99.99%"}',
        ),
        Exchange("PATCH", "/profiles/default", '{"reject_from": 1}'),
        Exchange(
            "PATCH", "/profiles/default", '{"ham_cost": null, "reject_from": null}'
        ),
    ),
    ("GET", "/profiles/{name}/figures"): (
        Exchange("GET", "/profiles/default/figures?window=100"),
    ),
    ("GET", "/words/{word}"): (Exchange("GET", "/words/prize"),),
    ("POST", "/sent"): (
        Exchange(
            "POST",
            "/sent",
            '{"sender": "ann@example.org", "recipients": ["carl@example.net"]}',
        ),
    ),
    ("GET", "/healthz"): (Exchange("GET", "/healthz"),),
    ("GET", "/readyz"): (Exchange("GET", "/readyz"),),
    ("GET", "/profiles/{name}/lists"): (Exchange("GET", "/profiles/default/lists"),),
    # With the time of the example in it.
    ("POST", "/profiles/{name}/lists"): (),
    ("DELETE", "/profiles/{name}/lists"): (
        Exchange("DELETE", "/profiles/default/lists?entry=ann@example.org"),
    ),
    ("GET", "/profiles/{name}/correspondents"): (
        Exchange("GET", "/profiles/default/correspondents"),
    ),
    ("DELETE", "/profiles/{name}/correspondents"): (
        Exchange("DELETE", "/profiles/default/correspondents?address=carl@example.net"),
    ),
    ("GET", "/keys"): (),
    # With a text that is another one each time.
    ("POST", "/keys"): (),
    ("DELETE", "/keys/{name}"): (),
    ("GET", "/people"): (Exchange("GET", "/people"),),
    ("POST", "/people"): (
        Exchange("POST", "/people", '{"name": "anna", "role": "reader"}'),
    ),
    ("PUT", "/people/{name}/password"): (
        Exchange("PUT", "/people/anna/password", '{"password": "a long sentence"}'),
    ),
    ("DELETE", "/people/{name}"): (Exchange("DELETE", "/people/anna"),),
    ("POST", "/password"): (
        Exchange(
            "POST",
            "/password",
            '{"password": "a long sentence", "new_password": "another sentence"}',
        ),
    ),
    ("GET", "/events"): (),
    # The answer is bytes where the profile is offered.
    ("GET", "/profiles/{name}/ledger"): (Exchange("GET", "/profiles/default/ledger"),),
    # Text with times in it; the page lists the metrics instead.
    ("GET", "/metrics"): (),
    ("POST", "/feedback/undo"): (
        Exchange(
            "POST", "/feedback/undo", '{"source": "ann@example.org", "dry_run": true}'
        ),
        Exchange("POST", "/feedback/undo", '{"source": "ann@example.org"}'),
        Exchange("POST", "/feedback/undo", '{"source": "undo:1"}'),
    ),
    ("GET", "/history"): (Exchange("GET", "/history?search=minutes&limit=10"),),
    ("GET", "/history/{id}"): (Exchange("GET", f"/history/{_SCORED}?explain=1"),),
    ("GET", "/review"): (Exchange("GET", "/review?limit=1"),),
    ("GET", "/overview"): (Exchange("GET", "/overview?days=1"),),
    ("GET", "/ledger"): (Exchange("GET", "/ledger?source=ann@example.org"),),
    # All settings, which have a page of their own.
    ("GET", "/settings"): (),
}
"""Requests of each operation, in the order in which they are made."""


def application(folder: Path) -> FastAPI:
    """Return the HTTP door with default settings over a new database in a folder."""
    defaults = {name: field.default for name, field in Settings.model_fields.items()}
    url = f"sqlite:///{folder}/postbayes.db"
    settings = Settings(**(defaults | {"database_url": url}))
    return create_app(Application(settings))


def answers() -> dict[Exchange, Any]:
    """Make the requests of the examples in turn, and return the answers."""
    with taught_service() as client:
        return {
            request: fixed(_answer(client, request))
            for some in EXAMPLES.values()
            for request in some
        }


@contextmanager
def taught_service() -> Iterator[TestClient]:
    """Open a client of a service that was taught the messages before the examples."""
    with (
        tempfile.TemporaryDirectory() as folder,
        TestClient(application(Path(folder)), client=("127.0.0.1", 50000)) as client,
    ):
        for request in BEFORE:
            _answer(client, request)
        yield client


def _answer(client: TestClient, request: Exchange) -> Any:
    """Make a request, and return the document that answers it."""
    # What the maintenance does about twice a second.
    app = client.app.state.application
    app.recent.flush(app.engine)
    return client.request(
        request.method,
        request.path,
        content=request.body or None,
        headers={"content-type": request.media_type} if request.body else None,
    ).json()


def fixed(document: Any) -> Any:
    """Return a document as it is shown: floats rounded, no trace of the clock."""
    if isinstance(document, dict):
        return {
            key: MOMENTS[key] if key in MOMENTS else fixed(value)
            for key, value in document.items()
        }
    if isinstance(document, list):
        return [fixed(value) for value in document]
    if isinstance(document, float):
        # No minus before a zero, and no digits that another processor rounds
        # otherwise.
        return round(document, 3) + 0.0
    return document


def shown(document: Any) -> str:
    """Return a document in lines that can be read: small parts on one line."""
    return block("json", _laid_out(document, indent=""))


def _laid_out(value: Any, *, indent: str) -> str:
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(indent) + len(flat) <= 88:  # noqa: PLR2004
        return flat
    inner = indent + "  "
    if isinstance(value, list):
        parts = [_laid_out(each, indent=inner) for each in value]
        first, last = "[", "]"
    else:
        parts = [
            f"{json.dumps(key)}: {_laid_out(each, indent=inner)}"
            for key, each in value.items()
        ]
        first, last = "{", "}"
    lines = ",\n".join(inner + part for part in parts)
    return f"{first}\n{lines}\n{indent}{last}"
