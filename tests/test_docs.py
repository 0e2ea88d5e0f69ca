"""The documents say what the code does: nothing is left out, and all of it runs."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from app import errors
from app.doors.cli.main import COMMANDS, GROUPS
from app.doors.http.errors import problem_type
from app.doors.serving.http1 import CROWDED
from app.doors.serving.request import require_place
from app.settings import Settings, texts_below
from scripts.reference import commands as command_pages
from scripts.reference import errors as error_pages
from scripts.reference import exchanges
from scripts.reference import http as http_pages
from scripts.reference.pages import pages
from tests.support.command import PATIENCE, on_path
from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam
from tests.support.service import Service, served

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
# Written for this test's rules; the others have rules and tests of their own.
PROSE = [
    DOCS / name
    for name in (
        "README",
        "operating",
        "troubleshooting",
        "portable",
        "connecting",
        "design",
        "glossary",
        "lab",
    )
    for name in [f"{name}.md"]
] + sorted((DOCS / "reference").glob("*.md"))

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)\s]*)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
TERM = re.compile(r"^\*\*(.+?)\*\*: ", re.MULTILINE)
TWO_SENTENCES = re.compile(r"[a-z)`]\. [A-Z]")


@pytest.fixture(scope="module")
def loaded():
    """Every command by its name, and every action of a group by both words."""
    return {
        words: command
        for name in COMMANDS
        for words, command in command_pages.runnable(name).items()
    }


def named(path):
    """Return a path as the repository's own, for test ids."""
    return path.relative_to(ROOT).as_posix()


def text(path):
    """Return the text of a document."""
    return path.read_text(encoding="utf-8")


def blocks(path, language):
    """Return the blocks of code of one language in a document."""
    return [body for name, body in BLOCK.findall(text(path)) if name == language]


def anchors(path):
    """Return what the headings of a document can be linked by."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in HEADING.findall(BLOCK.sub("", text(path)))
    }


@pytest.fixture(scope="module")
def written():
    """The pages of the reference, as the code would have them now."""
    return pages()


@pytest.fixture
def service(tmp_path):
    """A running service that has learned ten messages, on SQLite."""
    service = Service(sqlite_url(tmp_path), tmp_path)
    try:
        service.start()
        for n in range(5):
            service.teach(ham(n), "ham")
            service.teach(spam(n), "spam")
        yield service
    finally:
        service.client.close()
        service.kill()


def shell(service, script, **options):
    """Run a script of a document against a service, and return what it printed."""
    with on_path() as folder:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", directed(service, script)],
            env={**service.environment, "PATH": f"{folder}:{os.environ['PATH']}"},
            cwd=service.folder,
            capture_output=True,
            check=False,
            **options,
        )
    assert 0 == done.returncode, done.stderr.decode()
    return done.stdout


def directed(service, code):
    """Return code of a document with the address of a service in it."""
    return code.replace("127.0.0.1:8025", f"127.0.0.1:{service.port}")


def test_what_is_written_is_what_the_code_says(written):
    """A stale file is named here: run `python scripts/reference`."""
    assert [] == [
        name for name, page in written.items() if page != text(DOCS.parent / name)
    ]


def test_every_page_of_the_reference_is_written(written):
    """No page stays behind that no code stands for."""
    there = [
        path.relative_to(DOCS.parent).as_posix()
        for folder in ("docs/reference", "deploy/man", "deploy/completions")
        for path in (DOCS.parent / folder).iterdir()
    ]

    assert sorted(written) == sorted(there)


def test_every_setting_is_documented():
    """Each field of the settings has a section, and a meaning."""
    page = text(DOCS / "reference" / "settings.md")
    variables = [f"POSTBAYES_{name.upper()}" for name in Settings.model_fields]

    assert variables
    assert [] == [v for v in variables if f"\n## {v}\n" not in page]
    assert all(texts_below(Settings)[name] for name in Settings.model_fields)


def test_every_command_and_option_is_documented(loaded):
    """Each command and action has a section with its options, a help and codes."""
    page = text(DOCS / "reference" / "commands.md")
    sections = dict(
        part.split("\n", 1) for part in re.split("\n##+ ", page)[1:] if "\n" in part
    )

    assert COMMANDS.keys() == command_pages.EXITS.keys()
    for name, command in loaded.items():
        options = [p for p in command.params if p.param_type_name == "option"]

        assert command.help
        assert [] == [o for o in options if f"`{o.opts[0]}" not in sections[name]]
        assert all(parameter.help for parameter in command.params)


def test_every_operation_is_documented_with_an_example():
    """Each path and method of the OpenAPI document has a section and a request."""
    page = text(DOCS / "reference" / "http.md")
    operations = {
        (method.upper(), path)
        for path, methods in http_pages.openapi()["paths"].items()
        for method in methods
    }

    assert operations == exchanges.EXAMPLES.keys()
    assert [] == [o for o in operations if f"\n## {' '.join(o)}\n" not in page]


def test_statuses_are_those_that_the_interface_declares():
    """The reference and the OpenAPI document have the same for each operation."""
    for path, methods in http_pages.openapi()["paths"].items():
        for method, operation in methods.items():
            name = f"{method.upper()} {path}"
            documented = {
                status.value
                for cls in error_pages.raised()
                for status in error_pages.statuses(cls, name)
            }

            assert documented == {int(n) for n in operation["responses"]} - {200}, name


def test_an_error_without_a_place_is_one_of_the_reference():
    """Every operation may answer so, and programs know it by its type."""
    with pytest.raises(errors.Overloaded) as refused:
        require_place({"state": {CROWDED: True}})

    for operation in exchanges.EXAMPLES:
        statuses = error_pages.statuses(refused.type, " ".join(operation))
        assert [HTTPStatus.SERVICE_UNAVAILABLE] == statuses, operation


# One request that gets each error which a wrong value alone causes.
REFUSED = [
    ("POST /feedback", "/feedback?label=ham&source=undo:1", {"body": "Hello"}),
    ("DELETE /feedback/{id}", f"/feedback/{'0' * 32}?source=undo:1", None),
    ("POST /profiles", "/profiles", {"name": "a", "kind": "mail", "labels": ["b"]}),
    ("POST /profiles", "/profiles", {"name": "a b"}),
    ("GET /profiles/{name}/lists", "/profiles/default/lists?after=a", None),
    (
        "POST /profiles/{name}/lists",
        "/profiles/default/lists",
        {"entries": [{"entry": "a", "nats": 1}]},
    ),
    ("DELETE /profiles/{name}/lists", "/profiles/default/lists?entry=a", None),
    (
        "GET /profiles/{name}/correspondents",
        "/profiles/default/correspondents?address=a",
        None,
    ),
    (
        "DELETE /profiles/{name}/correspondents",
        "/profiles/default/correspondents?address=a",
        None,
    ),
    ("POST /keys", "/keys", {"name": "a b", "rights": ["read"]}),
    ("POST /keys", "/keys", {"name": "a", "rights": ["read"], "networks": ["b"]}),
    ("POST /people", "/people", {"name": "a b", "role": "reader"}),
    ("POST /people", "/people", {"name": "a", "role": "reader", "profile": "b c"}),
    ("PUT /people/{name}/password", "/people/a/password", {"password": "short"}),
    ("GET /keys", "/keys?unknown=1", None),
    ("GET /events", "/events?limit=0", None),
    ("GET /metrics", f"/metrics?{'&'.join(['profile=default'] * 101)}", None),
    (
        "GET /profiles/{name}/ledger",
        f"/profiles/default/ledger?after={'a' * 81}",
        None,
    ),
]


def test_refusals_have_the_problem_types_of_the_reference():
    """A client that knows the reference of an operation knows all its answers."""
    kinds = {problem_type(cls): cls for cls in error_pages.raised()}
    with exchanges.taught_service() as client:
        for operation, path, body in REFUSED:
            answer = client.request(operation.partition(" ")[0], path, json=body)
            raised = kinds[answer.json()["type"]]

            assert answer.status_code in error_pages.statuses(raised, operation), path


def test_the_reference_names_the_values_of_a_right():
    """Also those of a set that several documents share."""
    page = text(DOCS / "reference" / "http.md")

    assert "| `rights` | list of `classify`, `teach`, `read`, `lists`," in page


def test_every_error_is_documented():
    """Each class at the end of the tree has a section and its problem type."""
    page = text(DOCS / "reference" / "errors.md")
    classes = [
        cls
        for cls in vars(errors).values()
        if isinstance(cls, type)
        and issubclass(cls, errors.PostbayesError)
        and not cls.__subclasses__()
    ]

    assert classes
    assert [] == [c for c in classes if f"\n`{c.__name__}`: " not in page]
    assert [] == [c for c in classes if f"`{problem_type(c)}`" not in page]


def test_the_examples_of_the_reference_are_what_a_server_answers(tmp_path):
    """Its requests, run by curl in their order, get the answers that it shows."""
    fresh = Service(sqlite_url(tmp_path, "fresh.db"), tmp_path)
    page = DOCS / "reference" / "http.md"
    before, *requests = blocks(page, "sh")
    shown = [json.loads(answer) for answer in blocks(page, "json")]
    try:
        fresh.start()
        shell(fresh, before)
        given = [json.loads(shell(fresh, request)) for request in requests]
    finally:
        fresh.client.close()
        fresh.kill()

    assert len(requests) >= len(exchanges.EXAMPLES)
    assert shown == [exchanges.fixed(answer) for answer in given]


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_links_lead_to_a_page_and_a_heading(path):
    """A relative link names a file that is there, and a heading in it."""
    for link in LINK.findall(BLOCK.sub("", text(path))):
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path

        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("path", PROSE, ids=named)
def test_a_line_of_prose_is_one_sentence(path):
    """Differences show the sentence that changed; tables and code are as they are."""
    prose = [
        line
        for line in BLOCK.sub("", text(path)).splitlines()
        if not line.startswith("|")
    ]

    assert prose
    assert [] == [line for line in prose if TWO_SENTENCES.search(line)]


def test_every_page_is_in_the_index():
    """A reader finds each page of docs/ from docs/README.md."""
    index = text(DOCS / "README.md")
    first = [p for p in PAGES if p.parent.name not in {"experiments", "decisions"}]

    assert [] == [
        p for p in first if p.name != "README.md" and f"{p.name})" not in index
    ]


def test_python_in_the_documents_runs(service):
    """Each block is a program; mathematics.md is a doctest and has its own test."""
    ran = 0
    for path in PAGES:
        if path.name == "mathematics.md":
            continue
        for code in blocks(path, "python"):
            exec(compile(directed(service, code), named(path), "exec"), {})  # noqa: S102
            ran += 1

    assert ran
    learned = {
        each["name"]: each["revision"]
        for each in service.client.get("/profiles").json()["profiles"]
    }
    assert {"default": 10, "comments": 1} == learned


def folded(service):
    """Stop the service once all of its ledger is in the counts."""
    with closing(sqlite3.connect(service.folder / "postbayes.db")) as database:
        count = "SELECT min(folded_revision = revision) FROM fold, profile"
        while database.execute(count).fetchone() != (1,):
            service.client.get("/readyz").raise_for_status()
    service.stop()


def test_sql_in_the_documents_runs(service):
    """Each query finds something in a database that the service filled."""
    service.teach(spam(2), "ham")
    folded(service)
    queries = [
        query for query in blocks(DOCS / "operating.md", "sql") if "SELECT" in query
    ]

    assert len(queries) > 5
    with closing(sqlite3.connect(service.folder / "postbayes.db")) as database:
        assert all(database.execute(query).fetchall() for query in queries)


def test_the_text_of_words_can_be_dropped(service):
    """After the statements that say so, no word is stored and all counts hold."""
    folded(service)
    (statements,) = (
        query for query in blocks(DOCS / "operating.md", "sql") if "UPDATE" in query
    )
    with closing(sqlite3.connect(service.folder / "postbayes.db")) as database:
        database.executescript(statements)
    service.environment["POSTBAYES_STORE_WORDS"] = "false"
    service.start()
    answer = service.classify(spam(3))
    service.client.delete(f"/feedback/{answer['id']}").raise_for_status()

    assert "spam" == answer["decision"]
    assert service.audit()[0] == 0
    for path in service.folder.glob("postbayes.db*"):
        assert b"subject:" not in path.read_bytes()


def test_all_mail_of_a_person_can_be_forgotten(service):
    """What the history finds, taught or not, and nobody else's."""
    [script] = [
        each
        for each in blocks(DOCS / "operating.md", "sh")
        if "-X DELETE" in each and "history" in each
    ]
    raw = {"content-type": "message/rfc822"}
    ids = {
        to: {
            service.client.post(
                "/classify", params={"recipient": to}, content=each, headers=raw
            ).json()["id"]
            for each in messages
        }
        for to, messages in {
            "ann@example.org": (spam(1), spam(20)),
            "bob@example.org": (spam(2), spam(21)),
        }.items()
    }
    deadline = time.monotonic() + PATIENCE
    while len(listed(service)) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    printed = shell(service, script).decode().split()

    assert ids["ann@example.org"] == set(printed)
    assert ids["bob@example.org"] == listed(service)
    assert {"ham": 5, "spam": 4} == service.client.get("/profiles/default").json()[
        "messages"
    ]


def listed(service):
    """Return the ids of the history."""
    entries = service.client.get("/history?limit=200").json()["entries"]
    return {each["id"] for each in entries}


def test_a_backup_of_a_running_service_is_whole(service, tmp_path):
    """SQLite's own backup has all that was answered, and passes the audit."""
    with (
        closing(sqlite3.connect(service.folder / "postbayes.db")) as database,
        closing(sqlite3.connect(tmp_path / "copy.db")) as copy,
    ):
        database.backup(copy)
    service.environment["POSTBAYES_DATABASE_URL"] = f"sqlite:///{tmp_path}/copy.db"
    code, audit = service.audit()

    assert (0, 0) == (code, audit["difference"])
    assert 10 == audit["profiles"]["default"]["ledger_rows"]


@pytest.fixture
def scripts(service):
    """The scripts of docs/connecting.md as files, and how to run them."""
    for code in blocks(DOCS / "connecting.md", "sh"):
        if code.startswith("#!"):
            path = service.folder / re.search(r"^# ([\w-]+)", code, re.MULTILINE)[1]
            path.write_text(code)
            path.chmod(0o755)

    def run(name, *arguments, stdin, port=service.port):
        """Run a script, and return its exit code and what it printed."""
        done = subprocess.run(
            [service.folder / name, *arguments],
            input=stdin,
            env={
                **service.environment,
                "HOME": str(service.folder),
                "POSTBAYES_URL": f"http://127.0.0.1:{port}",
            },
            capture_output=True,
            check=False,
        )
        return done.returncode, done.stdout

    return run


def test_postbayes_mark_adds_a_header_and_nothing_else(service, scripts):
    """The message comes out byte for byte, below its verdict, with the same id."""
    raw = spam(50).replace(b"\n", b"\r\n") + b"\xff no line end"

    code, out = scripts("postbayes-mark", stdin=raw)

    assert (0, b"X-Postbayes: spam\n" + raw) == (code, out)
    assert service.classify(raw)["id"] == service.classify(out)["id"]
    envelope = b"From bob@example.org Fri Jan 30 12:00:00 2026\n"
    marked = envelope + b"X-Postbayes: spam\n" + raw
    assert (0, marked) == scripts("postbayes-mark", stdin=envelope + raw)


def test_postbayes_mark_passes_mail_on_when_the_service_is_away(scripts):
    """No mail is lost or held back for want of a verdict."""
    assert (0, spam(1)) == scripts("postbayes-mark", stdin=spam(1), port=1)


def test_postbayes_teach_returns_at_once_and_teaches(service, scripts):
    """A feedback is in the ledger with its source, soon after the script is done."""
    long = "somebody" * 10

    assert (0, b"") == scripts("postbayes-teach", "ham", "a b&c", stdin=ham(60))
    wait_for_rows(service, 11)
    assert (0, b"") == scripts("postbayes-teach", "ham", long, stdin=ham(61))
    assert [("ham", long[:64]), ("ham", "a b&c")] == wait_for_rows(service, 12)
    assert ["lock"] == left(service)


def test_postbayes_teach_keeps_the_order_while_the_service_is_away(service, scripts):
    """Whatever was said last of a message is what stays learned."""
    service.stop()
    for n in range(4):
        for label in ("spam", "ham", "spam", "ham"):
            assert (0, b"") == scripts(
                "postbayes-teach", label, "ann", stdin=ham(70 + n)
            )

    service.start()

    assert [("ham", "ann"), ("spam", "ann")] == wait_for_rows(service, 26)
    # A row is on disk a moment before it is in memory, where the answers are from.
    assert ["lock"] == left(service)
    messages = service.client.get("/profiles/default").json()["messages"]
    assert {"ham": 9, "spam": 5} == messages


def test_postbayes_teach_passes_over_what_is_refused(service, scripts):
    """A label that the profile has not is dropped, and holds nothing up."""
    assert (0, b"") == scripts("postbayes-teach", "parsley", stdin=ham(80))
    assert (0, b"") == scripts("postbayes-teach", "ham", stdin=ham(81))

    assert ("ham", "mail") == wait_for_rows(service, 11)[0]
    assert ["lock"] == left(service)


@pytest.fixture
def logged(service):
    """The log of the system, which `logger` writes."""
    logger, log = service.folder / "logger", service.folder / "logged"
    logger.write_text(f"#!/bin/sh\nexec cat >> {log}\n")
    logger.chmod(0o755)
    log.touch()
    service.environment["PATH"] = f"{service.folder}:{os.environ['PATH']}"
    yield log
    # What waits in the queue ends with it.
    for waiting in (service.folder / ".postbayes").glob("[0-9]*"):
        shutil.rmtree(waiting)


def first_line(log):
    """Return the first line of a log, once it is there."""
    while not (lines := log.read_text().splitlines()):
        time.sleep(0.02)
    return lines[0]


def test_postbayes_teach_logs_why_a_message_waits(service, scripts, logged):
    """A key that is not valid is a line in the log of the system."""
    service.environment["POSTBAYES_API_KEY"] = "pb_unknown"

    assert (0, b"") == scripts("postbayes-teach", "ham", stdin=ham(80))
    assert "kept, to be sent again: HTTP status 401" == first_line(logged)
    assert 1 == len([*(service.folder / ".postbayes").glob("[0-9]*")])


class Proxy(BaseHTTPRequestHandler):
    """Answers every request with the status in its path."""

    def do_POST(self):
        """Read the message, and answer in HTML."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(int(self.path.split("/")[1]))
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()

    def log_message(self, *_):
        """Write nothing."""


@pytest.mark.parametrize("status", [301, 404, 500])
def test_postbayes_teach_does_not_take_a_proxy_for_the_service(scripts, logged, status):
    """It may want HTTPS, or, as Traefik does, know no service while that restarts."""
    with served(ThreadingHTTPServer(("127.0.0.1", 0), Proxy)) as proxy:
        at = f"{proxy.server_port}/{status}"
        scripts("postbayes-teach", "ham", stdin=ham(80), port=at)

        assert f"kept, to be sent again: HTTP status {status}" == first_line(logged)


def left(service):
    """Return what is left in the queue once all is sent: the lock."""
    queue = service.folder / ".postbayes"
    while len(left := [path.name for path in queue.iterdir()]) > 1:
        time.sleep(0.02)
    return left


def wait_for_rows(service, revision):
    """Return the labels and sources of the newest rows, once there are so many."""
    newest = "SELECT revision, label, source FROM ledger ORDER BY revision DESC LIMIT 2"
    with closing(sqlite3.connect(service.folder / "postbayes.db")) as database:
        while (rows := database.execute(newest).fetchall())[0][0] < revision:
            time.sleep(0.02)
    return [row[1:] for row in rows]


# deploy/mail is no site to copy from, but one to try things with.
DEPLOYED = [
    path
    for folder in ("dovecot", "postfix")
    for path in sorted((ROOT / "deploy" / folder).iterdir())
]


@pytest.mark.parametrize("path", DEPLOYED, ids=named)
def test_what_is_deployed_is_what_the_page_shows(path):
    """The files to copy stand on the page as they are, and are what the tests run."""
    shown = BLOCK.findall(text(DOCS / "connecting.md"))

    assert text(path) in [body for _, body in shown]


def test_commands_of_the_connecting_page_run(service):
    """Everything but the scripts is run as it stands, in its order."""
    (service.folder / "message.eml").write_bytes(spam(70))
    code = [b for b in blocks(DOCS / "connecting.md", "sh") if not b.startswith("#!")]

    # Without POSTBAYES_AUTHSERV_ID no correspondent is counted, or can be forgotten.
    forgets = "postbayes correspondents forget carl@example.net\n"

    printed = shell(service, "\n".join(code).replace(forgets, "")).decode()

    assert forgets in "\n".join(code)
    assert '"outcome":"learned"' in printed
    assert "unchanged: spam" in printed
    assert '"name":"comments"' in printed


def used():
    """Yield the words of each `postbayes` command in the documents' shell blocks."""
    for path in PAGES:
        for code in blocks(path, "sh"):
            lines = code.replace("\\\n", " ").splitlines()
            for line in lines:
                found = re.search(r"(?:^| )postbayes (?=[a-z]+\b)(.*)", line)
                if found and not line.startswith(("#", "docker")):
                    yield named(path), shlex.split(found[1], comments=True)


def test_commands_in_the_documents_have_the_options_that_they_use(loaded):
    """`postbayes x --y` in a document is a command and an option of it."""
    lines = list(used())

    assert len(lines) > 8
    for where, (name, *words) in lines:
        named_action = words and not words[0].startswith("-")
        action = words[0] if named_action else "list"
        command = loaded[f"{name} {action}" if name in GROUPS else name]
        options = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
        given = {w.partition("=")[0] for w in words if w.startswith("--")}

        assert given <= options, (where, name)


def test_requests_in_the_documents_have_an_operation():
    """Each address of the service in a document is an operation of it."""
    patterns = [
        re.compile(re.sub(r"\{\w+\}", "[^/]+", path))
        for path in [*http_pages.openapi()["paths"], "/docs", "/openapi.json", "/ui"]
    ]
    paths = {
        path
        for page in PAGES
        for path in re.findall(r"127\.0\.0\.1:8025(/[\w/.-]+)", text(page))
    }

    assert paths
    assert [] == [p for p in paths if not any(r.fullmatch(p) for r in patterns)]


def test_the_glossary_is_sorted_and_has_the_vocabulary():
    """One word per thing: those that the code is written in are all there."""
    terms = TERM.findall(text(DOCS / "glossary.md"))
    vocabulary = re.search(
        r"\*\*One word per thing\.?\*\*:? (.+)", text(ROOT / "CONTRIBUTING.md")
    )[1]
    words = re.sub(r"\(.*?\)|in nats|\.", "", vocabulary).split(",")

    assert sorted(terms, key=str.lower) == terms
    assert len(words) > 15
    assert [] == [w for w in words if w.strip().removeprefix("and ") not in terms]


def test_each_term_of_the_glossary_is_used():
    """A word that neither the code nor another page has is not defined either."""
    sources = [
        *(ROOT / "app").rglob("*.py"),
        *(p for p in PAGES if "gloss" not in p.name),
    ]
    corpus = "\n".join(text(path) for path in sources).lower()
    unused = [
        term
        for term in TERM.findall(text(DOCS / "glossary.md"))
        if not re.search(rf"\b{re.escape(term.lower())}s?\b", corpus)
    ]

    assert [] == unused
