"""Several workers on one port and one database: each answers as the others do."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from app.classifier.snapshot import score
from app.services.cache import LiveProfiles
from app.services.classify import observe
from app.services.startup import open_database, specify
from app.settings import Settings
from tests.support.command import PATIENCE
from tests.support.databases import on_sqlite
from tests.support.messages import ham, spam
from tests.support.service import Service, client_of, loopbacks

WORKERS = 4
RAW = {"content-type": "message/rfc822"}
MESSAGES = [ham(n) for n in range(12)] + [spam(n) for n in range(12)]
PROBES = [ham(101), spam(102), ham(103) + spam(104)]


@pytest.fixture
def processes(service):
    """One connection to each of the workers of a service, by process."""
    service.environment["POSTBAYES_WORKERS"] = str(WORKERS)
    service.start()
    found = {}
    for _ in range(2000):
        client = client_of(service.port)
        worker = client.get("/healthz").headers["Postbayes-Worker"]
        if worker in found:
            client.close()
        found.setdefault(worker, client)
        if len(found) == WORKERS:
            break
    yield found
    for client in found.values():
        client.close()
    if service.process.poll() is None:
        service.stop()


@pytest.fixture
def workers(processes):
    """One connection to each of the workers of a service."""
    return list(processes.values())


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6")
@on_sqlite
@pytest.mark.parametrize("number", [1, 2])
def test_the_address_of_all_is_that_of_both_families(service, number):
    """With one worker, uvicorn would take `::` for IPv6 alone."""
    service.environment["POSTBAYES_KEYLESS_FROM"] = "127.0.0.1"
    service.start("--host", "::", "--workers", str(number))
    try:
        # By IPv4, and exempt from keys by the address of IPv4.
        assert service.client.get("/profiles").is_success
        for address in loopbacks()[1:]:
            with socket.create_connection((address, service.port), PATIENCE) as client:
                client.sendall(b"GET /profiles HTTP/1.0\r\n\r\n")

                assert b"HTTP/1.1 401 " == client.recv(13)
    finally:
        service.stop()


def teach(client, raw, label):
    """Teach one message, and return the answer."""
    answer = client.post("/feedback", params={"label": label}, content=raw, headers=RAW)
    answer.raise_for_status()
    return answer.json()


def revision(client):
    """Return the revision that a worker answers from."""
    return client.get("/profiles/default").json()["revision"]


def nobody_listens(service):
    """Wait until the port of a service is free, and return whether it came to that."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", service.port)):
                return True
        time.sleep(0.1)
    return False


def test_workers_under_random_feedback_end_at_the_replay(service, workers):
    """Learned, moved and forgotten at once everywhere: all the same, bit for bit.

    And what one worker scored another is taught by its id, at once, though it is
    written behind the answer.
    """
    scored = workers[0].post("/classify", content=spam(99), headers=RAW).json()
    by_id = workers[1].post("/feedback", json={"id": scored["id"], "label": "spam"})
    ids = [teach(workers[0], raw, "ham")["id"] for raw in MESSAGES]

    def act(number):
        rng = random.Random(number)  # noqa: S311  (no secret)
        for _ in range(30):
            which = rng.randrange(len(MESSAGES))
            what = rng.random()
            if what < 0.5:
                teach(workers[number], MESSAGES[which], rng.choice(["ham", "spam"]))
            elif what < 0.8:
                answer = workers[number].post(
                    "/feedback",
                    json={"id": ids[which], "label": rng.choice(["ham", "spam"])},
                )
                # 404 where another has just had the message forgotten, for good.
                assert answer.status_code in {200, 404}
            else:
                answer = workers[number].delete(f"/feedback/{ids[which]}")
                assert answer.status_code in {200, 404}

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(act, range(WORKERS)))
    newest = max(revision(client) for client in workers)
    while min(revision(client) for client in workers) < newest:
        pass
    answers = [
        [
            client.post("/classify", content=raw, headers=RAW).json()["log_odds"]
            for raw in PROBES
        ]
        for client in workers
    ]
    profiles = [client.get("/profiles/default").json() for client in workers]
    code, audit = service.audit()
    settings = Settings(database_url=service.environment["POSTBAYES_DATABASE_URL"])
    engine = open_database(settings, make=False)
    live = LiveProfiles(engine, specify(settings))
    live.refresh()
    snapshot = live.get("default").snapshot
    engine.dispose()
    replayed = [
        score(snapshot, observe(raw, snapshot.specification.views).views).log_odds
        for raw in PROBES
    ]

    assert WORKERS == len(workers)
    assert (200, "learned") == (by_id.status_code, by_id.json()["outcome"])
    assert [replayed] * WORKERS == answers
    assert [profiles[0]] * WORKERS == profiles
    assert (0, 0, newest) == (code, audit["difference"], snapshot.revision)


@on_sqlite
def test_a_worker_that_dies_is_replaced_and_learns_what_the_others_know(
    service, processes, workers
):
    """A killed worker is one of several; what was acknowledged stays.

    The log has its death, such as by the kernel that was short of memory.
    """
    taught = teach(workers[0], spam(1), "spam")
    for process in processes:
        os.kill(int(process), signal.SIGKILL)

    while True:
        try:
            answer = service.classify(spam(2))
        except httpx2.TransportError:
            continue
        break

    assert taught["revision"] == answer["revision"]
    service.stop()
    lines = (service.folder / "log").read_text()
    died = re.findall(r"a worker died \(process (\d+), exit code -9\)", lines)
    assert {*died} <= {*processes}
    assert died


# In each process, before anything of ours: in the first there is no such thread.
NO_THREADS = """
import threading
start = threading.Thread.start
def refuse(self):
    if self.name == "writer":
        raise RuntimeError("can't start new thread")
    start(self)
threading.Thread.start = refuse
"""


@on_sqlite
def test_a_service_that_ends_since_a_worker_fails_does_not_say_all_went_well(
    service, tmp_path
):
    """A supervisor that restarts what failed goes by the exit code."""
    (tmp_path / "sitecustomize.py").write_text(NO_THREADS)
    paths = [str(tmp_path), service.environment.get("PYTHONPATH", "")]
    service.environment |= {
        "POSTBAYES_WORKERS": "2",
        "PYTHONPATH": os.pathsep.join(paths),
    }
    done = service.command("serve")

    assert 3 == done.returncode
    assert "postbayes: a worker could not start" in done.stderr


@on_sqlite
@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_a_second_service_on_a_mail_port_is_refused(service, tmp_path, kind):
    """With one worker or several: on another database too, it would take mail of ours.

    The first goes on, and its workers share the door.
    """
    port = service.open_door("rspamd")
    address = f"127.0.0.1:{port}" if kind == "tcp" else f"unix:{tmp_path}/rspamd"
    service.environment |= {"POSTBAYES_WORKERS": "2", "POSTBAYES_RSPAMD": address}
    service.start()
    other = Service(f"sqlite:///{tmp_path}/other.db", tmp_path)
    other.environment["POSTBAYES_RSPAMD"] = address

    refused = []
    for workers in ("1", "2"):
        other.environment["POSTBAYES_WORKERS"] = workers
        refused.append(other.command("serve"))
    uds = None if kind == "tcp" else f"{tmp_path}/rspamd"
    transport = httpx2.HTTPTransport(uds=uds)
    with httpx2.Client(transport=transport, timeout=PATIENCE) as client:
        answer = client.get(f"http://127.0.0.1:{port}/ping")
    code = service.stop()

    assert [78, 78] == [each.returncode for each in refused]
    sentence = f"postbayes: POSTBAYES_RSPAMD: another service listens on {address}"
    assert all(sentence in each.stderr for each in refused)
    assert ("pong", 0) == (answer.text.strip(), code)
    assert not (tmp_path / "rspamd").exists()


@on_sqlite
def test_any_worker_tells_what_all_of_them_counted(service, workers):
    """A monitor that asks one worker sees the verdicts of the others too."""
    for client in workers:
        client.post("/classify", content=spam(1), headers=RAW)

    told = [client.get("/metrics").text for client in workers]

    counted = [
        sum(
            float(line.rpartition(" ")[2])
            for line in text.splitlines()
            if line.startswith("postbayes_classified_total{")
        )
        for text in told
    ]
    assert [WORKERS] * WORKERS == counted


@on_sqlite
def test_workers_end_with_a_parent_that_was_killed(service, workers):
    """Nobody is left who listens on the port of a service that is gone."""
    assert WORKERS == len(workers)

    service.kill()

    assert nobody_listens(service)


@on_sqlite
def test_workers_that_begin_while_their_parent_is_killed_end_too(service):
    """The first is ready by then, and the others still load what they need."""
    service.environment["POSTBAYES_WORKERS"] = str(WORKERS)
    service.start()

    service.kill()

    assert nobody_listens(service)


@on_sqlite
def test_workers_that_finish_a_request_let_nobody_else_wait(service):
    """New connections are refused meanwhile, so that a proxy goes on to the next."""
    service.environment["POSTBAYES_WORKERS"] = "2"
    service.start()
    with socket.create_connection(("127.0.0.1", service.port)) as slow:
        slow.sendall(
            b"POST /classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
            b"Content-Type: message/rfc822\r\nExpect: 100-continue\r\n\r\n"
        )
        begun = slow.recv(1024)
        service.process.send_signal(signal.SIGTERM)

        assert nobody_listens(service)
        assert begun.startswith(b"HTTP/1.1 100")
        slow.sendall(b"a: b\n")
        assert slow.recv(1024).startswith(b"HTTP/1.1 200")
    assert 0 == service.process.wait()


@on_sqlite
def test_what_a_service_that_was_killed_counted_into_is_removed(service, tmp_path):
    """By the next start, though its workers live a little longer than it."""
    service.environment |= {"POSTBAYES_WORKERS": "2", "TMPDIR": str(tmp_path)}
    folders = []
    for _ in range(2):
        service.start()
        folders.append(list(tmp_path.glob("postbayes-metrics-*")))
        service.kill()
        assert nobody_listens(service)

    assert [1, 1] == [len(each) for each in folders]
    assert folders[0] != folders[1]


@on_sqlite
def test_rspamd_statistics_are_those_of_all_workers(service):
    """Whichever is asked: each has counted what the others did."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    service.environment |= {
        "POSTBAYES_WORKERS": str(WORKERS),
        "POSTBAYES_RSPAMD": f"127.0.0.1:{port}",
    }
    service.start()

    def ask(path, content=None):
        # A connection of its own, which any worker may take.
        url = f"http://127.0.0.1:{port}{path}"
        method = "GET" if content is None else "POST"
        answer = httpx2.request(method, url, content=content, timeout=PATIENCE)
        return answer.raise_for_status().json()

    for number in range(8):
        ask("/checkv2", spam(number))
        ask("/learnspam", spam(number))
    stats = [ask("/stat") for _ in range(16)]
    service.stop()

    assert [(8, 8)] * 16 == [(each["scanned"], each["learned"]) for each in stats]
    assert list(range(17, 33)) == [each["connections"] for each in stats]
