"""What was acknowledged survives: restarts, kills, and kills under load."""

from __future__ import annotations

import signal
import threading

from app.storage.database.engine import open_engine, writing
from tests.support.databases import sqlite_url
from tests.support.messages import HAM, SPAM, ham, spam
from tests.support.service import Service


def test_learning_survives_a_clean_restart(service):
    """Stop and start: same revision, same score, and nothing is cut off."""
    service.start()
    for raw in HAM:
        service.teach(raw, "ham")
    for raw in SPAM:
        service.teach(raw, "spam")
    before = service.classify(spam(5))

    code = service.stop()
    service.start()

    # uvicorn finishes, then ends by the signal that it was sent, so that a
    # supervisor sees what happened.
    assert -signal.SIGTERM == code
    assert (
        "Postbayes no longer accepts requests" in (service.folder / "log").read_text()
    )
    assert before == service.classify(spam(5))
    assert "spam" == before["decision"]


def test_mail_that_the_command_learns_is_followed_by_the_service(service, tmp_path):
    """`postbayes learn` beside a running service: it answers by it soon."""
    for n in range(20):
        (tmp_path / f"m{n}").write_bytes(spam(n) if n % 2 else ham(n))
    lines = (f"{'spam' if n % 2 else 'ham'} m{n}\n" for n in range(20))
    (tmp_path / "index").write_text("".join(lines))
    service.start()

    done = service.command("learn", "--index", str(tmp_path / "index"))

    assert (0, "20 messages") == (done.returncode, done.stdout[:11])
    while (answer := service.classify(spam(50)))["revision"] < 20:
        pass
    assert "spam" == answer["decision"]


def test_a_newer_database_is_refused_with_a_sentence(service):
    """A database of a later version is left alone, and says so."""
    service.start()
    service.stop()
    engine = open_engine(service.environment["POSTBAYES_DATABASE_URL"])
    with writing(engine) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()

    done = service.command("serve")

    assert 70 == done.returncode
    assert "newer" in done.stderr
    assert "Traceback" not in done.stderr


def test_feedback_that_waits_for_a_lock_keeps_no_scoring_waiting(tmp_path):
    """More feedback than threads waits for a locked file; mail is scored meanwhile."""
    url = sqlite_url(tmp_path)
    service = Service(url, tmp_path)
    service.environment["POSTBAYES_BUSY_TIMEOUT"] = "60"
    service.start()
    engine = open_engine(url)
    answered = []
    threads = [
        threading.Thread(
            target=lambda n=n: answered.append(service.teach(spam(n), "spam"))
        )
        for n in range(60)
    ]
    with writing(engine):
        for thread in threads:
            thread.start()
        large = HAM[0] + b"word " * 20_000
        scored = [service.classify(raw)["decision"] for raw in (HAM[0], large)]
        healthy = service.client.get("/healthz").is_success
        early = len(answered)
    for thread in threads:
        thread.join()
    engine.dispose()
    service.kill()
    service.client.close()

    assert (2, True, 0) == (len(scored), healthy, early)
    assert 60 == len(answered)
