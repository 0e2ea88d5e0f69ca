"""A folder that no setting names is the one that the server marks."""

from __future__ import annotations

import logging
from base64 import b64decode
from contextlib import ExitStack
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest

from app.doors.imap.account import Folder, logged_in
from app.doors.imap.follower import CAPACITY
from app.errors import InvalidSetting, MailboxUnavailable
from tests.support.service import served

PLAIN = 'LIST "" "*"'
EXTENDED = 'LIST "" "*" RETURN (SPECIAL-USE)'


class Server(ThreadingTCPServer):
    """An IMAP server on loopback, with some folders that are empty.

    Parameters
    ----------
    capability : str
        What it is capable of beside IMAP.
    attributes : dict
        Those of each folder, by its name in modified UTF-7, for the LIST that asks
        for them or, without the capability, for any.
    """

    daemon_threads = True

    def __init__(self, capability, attributes):
        super().__init__(("127.0.0.1", 0), Session)
        self.capability = capability
        self.attributes = attributes
        self.commands = []
        self.messages = 0
        self.next_uid = "OK [UIDNEXT 1] x"
        self.status = "(UIDNEXT 7)"

    def answer(self, command):
        """Return the untagged lines that answer a command."""
        self.commands.append(command)
        name, _, rest = command.partition(" ")
        if name == "CAPABILITY":
            return [f"CAPABILITY IMAP4rev1 {self.capability}"]
        if name == "LIST":
            given = command == EXTENDED or not self.capability
            return [
                f'LIST ({attributes if given else ""}) "/" "{folder}"'
                for folder, attributes in self.attributes.items()
                if '"*"' in rest or rest.endswith(f'"{folder}"')
            ]
        if command.startswith("UID SEARCH"):
            return ["SEARCH 3 9"]
        if name == "STATUS":
            return [f'STATUS "INBOX" {self.status}']
        if name == "EXAMINE":
            return [
                f"{self.messages} EXISTS",
                "OK [UIDVALIDITY 1] x",
                self.next_uid,
            ]
        return []


class Session(StreamRequestHandler):
    """A connection to it."""

    def handle(self):
        """Greet, and answer each line."""
        self.wfile.write(b"* OK ready\r\n")
        for line in self.rfile:
            tag, command = line.decode().rstrip("\r\n").split(" ", 1)
            if command == "AUTHENTICATE PLAIN":
                self.wfile.write(b"+ \r\n")
                command += f" {b64decode(self.rfile.readline()).decode()}"
            lines = [f"* {each}" for each in self.server.answer(command)]
            self.wfile.write("\r\n".join([*lines, f"{tag} OK done", ""]).encode())


@pytest.fixture
def serve():
    """Starts a server, and returns it."""
    with ExitStack() as servers:
        yield lambda *given: servers.enter_context(served(Server(*given)))


def opened(server, *names):
    """Return the names of the folders that an account opens."""
    host, port = server.server_address
    login = {"user": "ann", "password": "secret"}
    with logged_in(host=host, port=port, security="none", **login) as account:
        return [account.open(name).name for name in names]


@pytest.mark.parametrize(
    ("capability", "asked"), [("SPECIAL-USE", EXTENDED), ("", PLAIN)]
)
def test_the_server_is_asked_once_which_folder_it_marks_as_junk(
    serve, caplog, capability, asked
):
    r"""With RETURN where it knows that; Gmail gives ``\Junk`` in every LIST."""
    caplog.set_level(logging.INFO, "app.doors.imap.account")
    folders = {"INBOX": "", "Junk": "", "Unerw&APw-nscht": r"\HasNoChildren \JUNK"}
    server = serve(capability, folders)

    assert ["Unerwünscht"] * 2 == opened(server, None, None)
    assert 1 == server.commands.count(asked)
    assert [
        "following the folder 'Unerwünscht', which the server marks as junk"
    ] == caplog.messages


@pytest.mark.parametrize("capability", ["SPECIAL-USE", ""])
def test_where_none_is_marked_it_is_junk(serve, caplog, capability):
    """The log has the reason."""
    caplog.set_level(logging.INFO, "app.doors.imap.account")
    server = serve(capability, {"INBOX": "", "Junk": "", "Spam": r"\Trash"})

    assert ["Junk"] == opened(server, None)
    assert [
        "following 'Junk', because the server marks no folder as junk"
    ] == caplog.messages


def test_a_folder_that_is_named_is_not_looked_for(serve, caplog):
    """The marks of the server do not matter then."""
    caplog.set_level(logging.INFO, "app.doors.imap.account")
    server = serve("SPECIAL-USE", {"Spam": "", "Junk": r"\Junk"})

    assert ["Spam"] == opened(server, "Spam")
    assert EXTENDED not in server.commands
    assert [] == caplog.messages


def test_a_server_that_opens_a_folder_without_its_next_uid_is_asked_for_it(serve):
    """Courier does; RFC 3501 (section 6.3.1) lets it."""
    server = serve("", {"INBOX": ""})
    server.next_uid = 'OK [MYRIGHTS "acdilrsw"] ACL'
    host, port = server.server_address
    login = {"user": "ann", "password": "secret"}
    with logged_in(host=host, port=port, security="none", **login) as account:
        assert Folder("INBOX", 1, 7, 0) == account.open("INBOX")

    # Before it is opened: what comes meanwhile is then new at the next look.
    assert ["STATUS", "EXAMINE"] == [
        command.partition(" ")[0] for command in server.commands[-3:-1]
    ]


@pytest.mark.parametrize("status", ["()", "(UIDNEXT NIL)", "(UIDNEXT)", "(MESSAGES 1)"])
def test_a_server_that_never_states_the_next_uid_is_asked_again_later(serve, status):
    """The follower waits, and does not end."""
    server = serve("", {"INBOX": ""})
    server.next_uid, server.status = "OK ok", status
    host, port = server.server_address
    login = {"user": "ann", "password": "secret"}
    with (
        pytest.raises(MailboxUnavailable, match="no UIDVALIDITY, UIDNEXT or"),
        logged_in(host=host, port=port, security="none", **login) as account,
    ):
        account.open("INBOX")


@pytest.mark.parametrize("capability", ["SPECIAL-USE", ""])
@pytest.mark.parametrize(
    ("folders", "archive"),
    [({"INBOX": "", "Old": r"\Archive"}, "Old"), ({"Archive": ""}, None)],
)
def test_the_archive_is_the_folder_that_the_server_marks(
    serve, capability, folders, archive
):
    """A folder named Archive is not enough."""
    host, port = serve(capability, folders).server_address
    login = {"user": "ann", "password": "secret"}
    with logged_in(host=host, port=port, security="none", **login) as account:
        assert archive == account.archive


@pytest.mark.parametrize(
    ("user", "password", "sent"),
    [
        ("ann@example.org", 'a b"\\', 'LOGIN ann@example.org "a b\\"\\\\"'),
        ("ann", "größer", "AUTHENTICATE PLAIN \0ann\0größer"),
        ("änne@example.org", "secret", "AUTHENTICATE PLAIN \0änne@example.org\0secret"),
        ("", "secret", "AUTHENTICATE PLAIN \0\0secret"),
        (r"SITE\ann lee", "secret", "AUTHENTICATE PLAIN \0SITE\\ann lee\0secret"),
        ("ann", "secret\nsecond", "AUTHENTICATE PLAIN \0ann\0secret\nsecond"),
    ],
)
def test_what_login_cannot_carry_is_sent_by_authenticate(serve, user, password, sent):
    """LOGIN has ASCII without line ends alone, and quotes no name before 3.14."""
    server = serve("AUTH=PLAIN", {"INBOX": ""})
    host, port = server.server_address
    with logged_in(host=host, port=port, security="none", user=user, password=password):
        pass

    assert [sent] == [
        each for each in server.commands if each.startswith(("LOGIN", "AUTHENTICATE"))
    ]


def test_a_server_without_such_a_folder_is_told_of_in_one_sentence(serve):
    """The sentence names the settings."""
    server = serve("SPECIAL-USE", {"INBOX": ""})

    with pytest.raises(InvalidSetting, match="no folder 'Junk'; POSTBAYES_IMAP_JUNK"):
        opened(server, None)


@pytest.mark.parametrize(
    ("messages", "first"), [(1, 1), (CAPACITY, 1), (CAPACITY + 5, 6)]
)
def test_marked_messages_are_searched_for(serve, messages, first):
    """Only messages with exactly one mark count, among the last of a folder."""
    server = serve("SPECIAL-USE", {"INBOX": ""})
    server.messages = messages
    host, port = server.server_address
    login = {"user": "ann", "password": "secret"}
    with logged_in(host=host, port=port, security="none", **login) as account:
        folder = account.open("INBOX")

        assert {3, 9} == account.marked(folder, "spam")
        assert {3, 9} == account.marked(folder, "ham")
    assert [
        f"UID SEARCH {first}:* OR KEYWORD $Junk KEYWORD Junk "
        "UNKEYWORD $NotJunk UNKEYWORD NonJunk",
        f"UID SEARCH {first}:* OR KEYWORD $NotJunk KEYWORD NonJunk "
        "UNKEYWORD $Junk UNKEYWORD Junk",
    ] == [each for each in server.commands if each.startswith("UID SEARCH")]


def test_in_an_empty_folder_nothing_is_marked(serve):
    """An empty folder has no numbers to search."""
    server = serve("SPECIAL-USE", {"INBOX": ""})
    host, port = server.server_address
    login = {"user": "ann", "password": "secret"}
    with logged_in(host=host, port=port, security="none", **login) as account:
        assert set() == account.marked(account.open("INBOX"), "spam")
