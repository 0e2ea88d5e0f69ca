"""HTTP door: the cost of a request without scoring and learning.

    python -m benchmarks.door [--requests N]

Gives requests to the application in this process, past the server and its
sockets, where the use cases repeat their first answers at once.  The rest is the
door: routes, queries, bodies, documents and the framework around them.  Time is
that of the processor, and the best of several rounds, so that it can be read on a
machine that does other things as well.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import uvloop

from app.doors.http.app import create_app
from app.services.application import Application
from app.settings import Settings

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message

    from app.services.feedback import PendingFeedback

ROUNDS: Final = 5
RAW: Final = "message/rfc822"
MESSAGE: Final = b"From: ann@example.org\nSubject: Lunch\n\n" + b"Shall we meet? " * 200


class Asked(NamedTuple):
    """A request."""

    method: str
    path: str
    query: str = ""
    body: bytes = b""
    content_type: str = RAW


class Same:
    """A use case that gives one answer, whatever it is asked."""

    def __init__(self, answer: object) -> None:
        self._answer = answer
        self.write_behind = 0.0

    def at_hand(self, *_: object) -> object:
        """Stand in for `Recall`."""
        return self._answer

    def each(self, *_: object, **__: object) -> object:
        """Stand in for `Classify`."""
        return self._answer

    def start_teach(self, *_: object, **__: object) -> object:
        """Stand in for `Feedback`."""
        return self._answer

    start_teach_by_id = start_teach


async def ask(app: ASGIApp, asked: Asked) -> bytes:
    """Return the body of the answer.

    Raises
    ------
    RuntimeError
        If the answer is not 200.
    """
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": asked.method,
        "scheme": "http",
        "path": asked.path,
        "raw_path": asked.path.encode(),
        "root_path": "",
        "query_string": asked.query.encode(),
        "headers": [
            (b"host", b"localhost"),
            (b"content-type", asked.content_type.encode()),
            (b"content-length", str(len(asked.body)).encode()),
        ],
        "client": ("127.0.0.1", 40000),
        "server": ("127.0.0.1", 8025),
    }
    sent: list[Any] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": asked.body, "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    if sent[0]["status"] != 200:
        raise RuntimeError(f"{asked.path}: {sent!r}")
    body: bytes = sent[1]["body"]
    return body


async def cost(app: ASGIApp, asked: Asked, *, requests: int) -> float:
    """Return what one request takes of the processor. Unit: microseconds."""
    rounds = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        for _ in range(requests):
            await ask(app, asked)
        rounds.append((time.process_time() - begun) / requests)
    return 1e6 * min(rounds)


async def measure(application: Application, *, requests: int) -> None:
    """Print the table."""
    app = create_app(application)
    profile = application.settings.profile
    classified = application.classify.each((profile,), MESSAGE, strongest=0)
    digest = classified[profile].observation.digest
    known = application.recall.look_up(profile, digest)
    pending: PendingFeedback = application.feedback.start_teach_by_id(
        profile, digest, known, label="ham", source="benchmark"
    )
    pending.result()
    # What is given to the recipients, logged and noted stays.
    application.delivery.classify = Same(classified)  # type: ignore[assignment]
    application.recall = Same(known)  # type: ignore[assignment]
    application.feedback = Same(pending)  # type: ignore[assignment]
    by_id = json.dumps({"id": digest.hex(), "label": "ham"}).encode()
    rows = {
        "GET /healthz": Asked("GET", "/healthz"),
        "POST /classify": Asked("POST", "/classify", "explain=0", MESSAGE),
        "POST /feedback, message": Asked("POST", "/feedback", "label=ham", MESSAGE),
        "POST /feedback, id": Asked("POST", "/feedback", "", by_id, "application/json"),
    }
    for name, asked in rows.items():
        print(f"{name:34} {await cost(app, asked, requests=requests):8.1f} us")


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--requests", type=int, default=1500, help="of each kind")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="postbayes-") as folder:
        url = f"sqlite:///{folder}/postbayes.db"
        application = Application(Settings(database_url=url))
        application.start()
        try:
            uvloop.run(measure(application, requests=options.requests))
        finally:
            application.stop()


if __name__ == "__main__":
    main()
