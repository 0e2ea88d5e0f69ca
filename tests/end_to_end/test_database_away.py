"""A PostgreSQL that ends, hangs and comes back: scoring goes on, nothing is lost."""

from __future__ import annotations

import threading
import time

import pytest

from tests.support import postgres
from tests.support.application import client_of
from tests.support.messages import ham, spam
from tests.support.service import Service

RAW = {"content-type": "message/rfc822"}
ATTEMPTS = 600


@pytest.fixture
def cluster(postgres_binaries):
    """A PostgreSQL that nobody else uses."""
    with postgres.cluster(postgres_binaries) as cluster:
        yield cluster


@pytest.fixture
def service(cluster, tmp_path):
    """A service on that PostgreSQL, started."""
    service = Service(cluster.url, tmp_path)
    service.start()
    yield service
    service.client.close()
    service.kill()


def message(number):
    """Return a message and what it is."""
    return (spam(number), "spam") if number % 2 else (ham(number), "ham")


def post(client, number):
    """Ask a service to learn a message, and return its answer as it comes."""
    raw, label = message(number)
    return client.post("/feedback", params={"label": label}, content=raw, headers=RAW)


def until_ready(client):
    """Ask until it is ready, since maintenance looks twice a second; return the status."""
    for _ in range(ATTEMPTS):
        if (status := client.get("/readyz").status_code) == 200:
            break
        time.sleep(0.1)
    return status


def test_a_database_that_ends_and_comes_back_has_lost_nothing(cluster, service):
    """Under load: 503 while it is away, no restart after it, no message half there."""
    acknowledged = {}
    refused = []
    over = threading.Event()

    def wait_for(many, more):
        target = len(many) + more
        while len(many) < target:
            assert any(thread.is_alive() for thread in threads)
            time.sleep(0.01)

    def teach(first):
        for number in range(first, first + 10_000):
            if over.is_set():
                return
            answer = post(service.client, number)
            if answer.is_success:
                acknowledged[number] = answer.json()["revision"]
            else:
                refused.append(answer)

    threads = [threading.Thread(target=teach, args=(10_000 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        wait_for(acknowledged, 50)
        cluster.stop()
        wait_for(refused, 20)
        away = [service.classify(spam(3))["decision"]]
        away.append(service.client.get("/healthz").status_code)
        away.append(service.client.get("/readyz").status_code)
        cluster.start()
    wait_for(acknowledged, 50)
    over.set()
    for thread in threads:
        thread.join()
    ready = until_ready(service.client)
    kept = {post(service.client, n).json()["outcome"] for n in acknowledged}
    code, audit = service.audit()
    rows = audit["profiles"]["default"]["ledger_rows"]

    assert ["spam", 200, 503] == away
    assert {(503, "5")} == {(a.status_code, a.headers["retry-after"]) for a in refused}
    assert (200, {"unchanged"}) == (ready, kept)
    assert len(acknowledged) == len(set(acknowledged.values()))
    assert (0, 0) == (code, audit["difference"])
    assert len(acknowledged) <= rows <= len(acknowledged) + len(refused)


def test_a_database_that_hangs_is_given_up_and_taken_up_again(cluster):
    """One waits for it, the next are told at once, and mail is scored meanwhile."""
    with client_of(cluster.url, busy_timeout=0.5) as client:
        learned = [n for n in range(20) if post(client, n).is_success]
        with cluster.frozen():
            refused = [post(client, n) for n in (100, 101, 102)]
            by_id = client.post("/feedback", json={"id": "0" * 32, "label": "spam"})
            scored = client.post("/classify", content=spam(3), headers=RAW).json()
            ready = client.get("/readyz")
        after = until_learned(client, 100)
        kept = {post(client, n).json()["outcome"] for n in learned}

    assert [(503, "5")] * 4 == [
        (answer.status_code, answer.headers["retry-after"])
        for answer in (*refused, by_id)
    ]
    # Whoever was first may have waited for it, or house-keeping has.
    assert ["The database hangs"] * 4 == [
        answer.json()["detail"].partition(";")[0]
        for answer in (*refused[1:], by_id, ready)
    ]
    assert 503 == ready.status_code
    assert ("spam", 20) == (scored["decision"], scored["revision"])
    assert {"unchanged"} == kept
    assert after.json()["outcome"] in {"learned", "unchanged"}
    assert 20 == len(learned)


def test_nobody_is_told_wrongly_that_nothing_was_stored(cluster):
    """Under load it hangs in any statement, the commit among them."""
    acknowledged, refused = set(), {}
    over = threading.Event()
    with client_of(cluster.url, busy_timeout=0.5) as client:

        def teach(first):
            for number in range(first, first + 10_000):
                answer = post(client, number)
                if answer.is_success:
                    acknowledged.add(number)
                else:
                    refused[number] = answer.json()["detail"]
                    if over.is_set():
                        return

        threads = [threading.Thread(target=teach, args=(10_000 * k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(3):
            target, known = len(acknowledged) + 50, len(refused)
            while len(acknowledged) < target:
                time.sleep(0.01)
            with cluster.frozen():
                while len(refused) < known + 8:
                    time.sleep(0.01)
        over.set()
        with cluster.frozen():
            for thread in threads:
                thread.join()
        until_learned(client, 90_000)
        kept = {post(client, n).json()["outcome"] for n in acknowledged}
        again = {n: post(client, n).json()["outcome"] for n in refused}

    denied = {n for n, detail in refused.items() if "Nothing was stored" in detail}
    perhaps = {n for n, detail in refused.items() if "may have been stored" in detail}

    assert {"unchanged"} == kept
    assert set(refused) == denied | perhaps
    assert {"learned"} == {again[n] for n in denied}


def until_learned(client, number):
    """Teach a message until it is learned, and return the answer."""
    for _ in range(ATTEMPTS):
        answer = post(client, number)
        if answer.is_success:
            return answer
        time.sleep(0.1)
    pytest.fail(f"not learned after {ATTEMPTS} attempts: {answer.text}")
