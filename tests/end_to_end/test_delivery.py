"""Real procmail, maildrop, notmuch, spamc and PHP deliver as docs/connecting.md has it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support import clients
from tests.support.databases import sqlite_url
from tests.support.messages import ham, spam
from tests.support.service import Service, learned, more

pytestmark = pytest.mark.clients

PAGE = (Path(__file__).parents[2] / "docs" / "connecting.md").read_text()
MARK = "/usr/local/bin/postbayes-mark"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service that has learned some mail."""
    folder = tmp_path_factory.mktemp("service")
    service = Service(sqlite_url(folder), folder)
    service.start()
    for n in range(10, 30):
        service.teach(ham(n), "ham")
        service.teach(spam(n), "spam")
    yield service
    service.client.close()
    service.kill()


@pytest.fixture(scope="module")
def home(service, tmp_path_factory):
    """A home with a Maildir and the marking script, beside a service."""
    home = tmp_path_factory.mktemp("home")
    script = block("sh", "postbayes-mark: mail in")
    script = script.replace("http://127.0.0.1:8025", f"http://127.0.0.1:{service.port}")
    (home / "mark").write_text(script)
    (home / "mark").chmod(0o755)
    subprocess.run(
        ["/bin/sh", "-c", block("text", "mkdir -p ~/Maildir")],
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        check=True,
    )
    return home


def block(language, inside):
    """Return the block of the page that has some words."""
    found = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    (only,) = (each for each in found if inside in each)
    return only


@pytest.mark.parametrize(
    ("program", "arguments"),
    [("procmail", ["-m", "HOME={home}", "rc"]), ("maildrop", ["./rc"])],
)
def test_mail_is_marked_and_filed(home, program, arguments):
    """Spam lies in Junk, ham in the inbox, each with its mark."""
    path = clients.find(program)
    rules = block(program, MARK).replace(MARK, str(home / "mark"))
    (home / "rc").write_text(rules)
    (home / "rc").chmod(0o600)

    for raw in (spam(7), ham(7)):
        done = subprocess.run(
            [path, *(each.format(home=home) for each in arguments)],
            input=raw,
            cwd=home,
            env={"HOME": str(home), "PATH": "/usr/bin:/bin", "LOGNAME": "root"},
            capture_output=True,
            check=False,
        )
        assert (0, b"") == (done.returncode, done.stderr)

    folders = [home / "Maildir" / ".Junk" / "new", home / "Maildir" / "new"]
    delivered = [path.read_bytes() for each in folders for path in each.iterdir()]
    for folder in folders:
        for file in folder.iterdir():
            file.unlink()
    assert [b"X-Postbayes: spam", b"X-Postbayes: ham"] == [
        raw.splitlines()[0] for raw in delivered
    ]


# A sender chooses it; as a query it would find the message "ham" instead.
SPAM = "spam)|id:ham"


@pytest.fixture
def notmuch(service, tmp_path):
    """Run notmuch on a folder of two messages with the hook of the page."""
    program = clients.find("notmuch")
    hook = tmp_path / "mail" / ".notmuch" / "hooks" / "post-new"
    hook.parent.mkdir(parents=True)
    hook.write_text(block("sh", "post-new: tags new spam"))
    hook.chmod(0o755)
    for name, raw in (("ham", ham(8)), (SPAM, spam(8))):
        message = f"Message-ID: <{name}>\n".encode() + raw
        (tmp_path / "mail" / f"{len(name)}").write_bytes(message)
    (tmp_path / "config").write_text(f"[database]\npath={tmp_path}/mail\n")
    environment = {
        "HOME": str(tmp_path),
        "NOTMUCH_CONFIG": str(tmp_path / "config"),
        "PATH": "/usr/bin:/bin",
    }

    def run(*arguments, port=service.port):
        done = subprocess.run(
            [program, *arguments],
            env={**environment, "POSTBAYES_URL": f"http://127.0.0.1:{port}"},
            capture_output=True,
            check=True,
            text=True,
        )
        assert "" == done.stderr
        return done.stdout.split()

    # The command of the page.
    (setting,) = re.findall("`notmuch (config set new[^`]*)`", PAGE)
    run(*setting.split())
    return run


def test_notmuch_tags_spam_and_teaches_by_the_tag(service, notmuch):
    """New mail waits for a verdict; a tag that somebody changes is a lesson."""

    def tags(name):
        return notmuch("search", "--exclude=false", "--output=tags", f'id:"{name}"')

    notmuch("new", port=1)
    assert ["inbox", "new", "unread"] == tags(SPAM)
    notmuch("new")
    assert ["postbayes-spam", "spam", "unread"] == tags(SPAM)
    assert ["inbox", "unread"] == tags("ham")

    expected = more(service, ham=1, spam=1)
    notmuch("tag", "+spam", "id:ham")
    notmuch("tag", "-spam", f'id:"{SPAM}"')
    notmuch("new", port=1)
    notmuch("new")
    assert expected == learned(service)
    expected = more(service, ham=1, spam=-1)
    notmuch("tag", "-spam", "id:ham")
    notmuch("new")
    assert expected == learned(service)
    assert ["unread"] == tags(SPAM)


@pytest.fixture
def form(tmp_path):
    """Send a form to the script of the page, beside a service, and return its text."""
    service = Service(sqlite_url(tmp_path), tmp_path)
    service.start()
    service.client.post("/profiles", json={"name": "comments"})
    script = block("php", "function ask").replace("8025", str(service.port))
    (tmp_path / "form.php").write_text(script)
    filled = "parse_str(stream_get_contents(STDIN), $_POST); require 'form.php';"

    def send(fields):
        return subprocess.run(
            [clients.find("php"), "-r", filled],
            input=fields,
            cwd=tmp_path,
            capture_output=True,
            check=True,
            text=True,
        ).stdout

    yield service, send
    service.client.close()
    service.kill()


def test_a_form_in_php_is_scored_whatever_is_sent(form):
    """A spammer chooses the bytes and the names of fields; without an answer it goes on."""
    service, send = form
    sent = {"from": "bob@example.org", "subject": "Gr\xfc\xdfe", "body": "\ufffd"}
    known = service.client.post("/classify?profile=comments", json=sent).json()["id"]

    fields = "email=bob@example.org&subject=Gr%C3%BC%C3%9Fe&message=%FF"
    assert f"accepted {known}" == send(fields)
    assert re.fullmatch("accepted [0-9a-f]{32}", send("subject[]=a&message=b"))
    service.kill()
    assert "accepted " == send(fields)


def test_evolution_runs_it_as_spamassassin_and_as_sa_learn(spamd_site, tmp_path):
    """The exit code is the decision, and buttons teach; with Evolution's options."""
    service, port = spamd_site
    there = f'exec {clients.find("spamc")} -d 127.0.0.1 -p {port} "$@"'
    script = block("sh", "postbayes-junk: scores")
    for name, text in (("spamc", f"#!/bin/sh\n{there}\n"), ("junk", script)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    def run(*options, message=b""):
        return subprocess.run(
            [tmp_path / "junk", *options],
            env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
            input=message,
            check=False,
        ).returncode

    assert [0, 0] == [run("--version"), run("--sync", "--local")]
    for local in ([], ["--local"]):
        assert 1 == run("--exit-code", *local, message=spam(9))
        assert 0 == run("--exit-code", *local, message=ham(9))
        assert 0 == run("--spam", "--no-sync", *local, message=spam(9))
        assert 0 == run("--ham", "--no-sync", *local, message=ham(9))
    assert {"ham": 21, "spam": 21} == learned(service)
    service.stop()
    assert 0 == run("--exit-code", message=spam(9))
    assert 0 != run("--spam", message=spam(9))
