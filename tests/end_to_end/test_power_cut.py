"""Copies of a database's files, taken while a service writes them, are whole."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from app.storage import profiles
from app.storage.database.engine import open_engine, reading
from app.storage.fold import audit
from app.storage.ledger import batches_after
from tests.support import postgres
from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam
from tests.support.service import Service

CLIENTS = 4


class Teachers:
    """Clients that teach without a pause, and remember what was acknowledged."""

    def __init__(self, service):
        self._service = service
        self._acknowledged = {}
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._teach, args=(10_000 * k,))
            for k in range(CLIENTS)
        ]

    def __enter__(self):
        """Start them."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        """Have them finish, and wait for it."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def acknowledged(self):
        """Return the labels of what was acknowledged, by id."""
        return self._acknowledged.copy()

    def wait_for(self, more):
        """Wait until so many more messages are learned."""
        target = len(self._acknowledged) + more
        while len(self._acknowledged) < target:
            assert any(thread.is_alive() for thread in self._threads)
            time.sleep(0.002)

    def _teach(self, first):
        for number in range(first, first + 10_000):
            if self._over.is_set():
                return
            raw = spam(number) if number % 2 else ham(number)
            # Scored too, so that the files have what is written behind.
            self._service.classify(raw)
            label = "spam" if number % 2 else "ham"
            self._acknowledged[self._service.teach(raw, label)["id"]] = label


@contextmanager
def stopped(process):
    """Stop a process wherever it is, and let it go on afterwards."""
    process.send_signal(signal.SIGSTOP)
    while "State:\tT" not in Path(f"/proc/{process.pid}/status").read_text():
        time.sleep(0.001)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def what_is_in(url):
    """Return the labels that a database holds by id, and whether it is whole."""
    engine = open_engine(url)
    with reading(engine) as connection:
        profile = profiles.find(connection, "default")
        rows = [
            row
            for batch in batches_after(connection, profile.id, revision=0)
            for row in batch
        ]
        sound = audit(connection, profile).sound
    engine.dispose()
    return {row.digest.hex(): row.label for row in rows}, sound


def test_a_copy_of_the_files_has_all_that_was_acknowledged_before_it(tmp_path):
    """SQLite: the database and its log, without the index that the kernel shares."""
    service = Service(sqlite_url(tmp_path), tmp_path)
    service.start()
    copies = []
    with ExitStack() as stack:
        stack.callback(service.client.close)
        stack.callback(service.kill)
        teachers = stack.enter_context(Teachers(service))
        for number in range(12):
            teachers.wait_for(10)
            copy = tmp_path / f"copy{number}.db"
            before = teachers.acknowledged()
            with stopped(service.process):
                for suffix in ("", "-wal"):
                    source = tmp_path / f"postbayes.db{suffix}"
                    shutil.copyfile(source, f"{copy}{suffix}")
            copies.append((copy, before, teachers.acknowledged()))

    for copy, before, after in copies:
        there, sound = what_is_in(f"sqlite:///{copy}")

        assert sound
        assert before.items() <= there.items()
        assert len(there) <= len(after) + CLIENTS


def test_a_copy_of_a_cluster_has_all_that_was_acknowledged_before_it(
    tmp_path, postgres_binaries
):
    """PostgreSQL: started from the copy, it is as after a power cut."""
    with ExitStack() as stack:
        cluster = stack.enter_context(postgres.cluster(postgres_binaries))
        service = Service(cluster.url, tmp_path)
        service.start()
        stack.callback(service.client.close)
        stack.callback(service.kill)
        teachers = stack.enter_context(Teachers(service))
        for _ in range(3):
            teachers.wait_for(30)
            before = teachers.acknowledged()
            with ExitStack() as until_copied:
                until_copied.enter_context(cluster.frozen())
                copy = stack.enter_context(cluster.copied())
                after = teachers.acknowledged()
            there, sound = what_is_in(copy.url)

            assert sound
            assert before.items() <= there.items()
            assert len(there) <= len(after) + CLIENTS
