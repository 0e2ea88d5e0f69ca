"""Listening sockets: who gets them, and what is told where they cannot be had."""

from __future__ import annotations

import errno
import re
import socket
import stat
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest

from app.doors.serving.sockets import Inet, Unix, bind, listen, reserved
from app.errors import InvalidSetting
from tests.support import command
from tests.support.service import free_port, loopbacks

LOOPBACK = Inet("127.0.0.1", 0)


def opened(address, *, shared=False, mode=0o660):
    """Return what `listen` returns, for a setting named X."""
    return listen(address, setting="X", mode=mode, shared=shared)


def port_of(listening):
    """Return the port that the kernel gave."""
    return listening.socket.getsockname()[1]


def test_a_port_belongs_to_one_service():
    """A second service on the same port is told so, and the first is not robbed."""
    with (
        closing(opened(LOOPBACK)) as first,
        pytest.raises(
            InvalidSetting, match=r"X: another service listens on 127.0.0.1:\d+; "
        ),
    ):
        opened(Inet("127.0.0.1", port_of(first)))


def test_workers_share_a_port():
    """Where workers share, each has a socket of its own on one port."""
    with closing(opened(LOOPBACK, shared=True)) as first:
        address = Inet("127.0.0.1", port_of(first))
        with closing(opened(address, shared=True)) as second:
            assert port_of(first) == port_of(second)


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6")
@pytest.mark.parametrize("host", ["::", ""])
def test_every_address_is_of_both_families(host):
    """One socket for both, or one for each of them on one port."""
    port = free_port()
    with ExitStack() as stack:
        for each in bind(host, port):
            stack.enter_context(each).listen()
        for address in loopbacks():
            client = stack.enter_context(socket.create_connection((address, port)))

            assert port == client.getpeername()[1]


def test_where_one_address_is_taken_none_is_held():
    """The next attempt finds all of them free."""
    with closing(opened(LOOPBACK)) as first:
        before = len(list(Path("/proc/self/fd").iterdir()))
        with pytest.raises(OSError, match="Address already in use"):
            bind("127.0.0.1", port_of(first))

        assert before == len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("kind", ["tcp", "unix"])
def test_an_address_that_is_reserved_is_of_one_service(tmp_path, kind):
    """From before its workers listen until after, and its workers share it."""
    with closing(opened(LOOPBACK)) as free:
        port = port_of(free)
    address = Inet("127.0.0.1", port) if kind == "tcp" else Unix(f"{tmp_path}/door")
    told = f"X: another service listens on {re.escape(str(address))}; stop that"

    with reserved(address, setting="X"):
        with pytest.raises(InvalidSetting, match=told), reserved(address, setting="X"):
            pass
        with closing(opened(address, shared=True)):
            pass
    with (
        closing(opened(address, shared=True)),
        pytest.raises(InvalidSetting, match=told),
        reserved(address, setting="X"),
    ):
        pass
    with reserved(address, setting="X"):
        pass


def test_a_host_that_does_not_exist_is_told():
    """An unknown name does not cause a traceback."""
    with pytest.raises(InvalidSetting, match=r"on no\.host\.invalid:1"):
        opened(Inet("no.host.invalid", 1))


def test_a_unix_socket_has_its_mode_and_goes_with_its_service(tmp_path):
    """The file has the permissions that were set, and is removed at the end."""
    path = tmp_path / "door"
    listening = opened(Unix(str(path)), mode=0o606)

    found = stat.S_IMODE(path.stat().st_mode)
    listening.close()

    assert 0o606 == found
    assert not path.exists()


def test_the_socket_of_a_process_that_was_killed_is_replaced(tmp_path):
    """The file that it left behind does not keep the next one from starting."""
    path = tmp_path / "door"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))

    with closing(opened(Unix(str(path)))), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))

    assert not path.exists()


def test_a_unix_socket_is_of_one_process_at_a_time(tmp_path):
    """Another service is told; another worker of one leaves it to the first."""
    address = Unix(str(tmp_path / "door"))

    with closing(opened(address, shared=True)):
        with pytest.raises(BlockingIOError):
            opened(address, shared=True)
        with pytest.raises(InvalidSetting, match="another service listens on unix:"):
            opened(address)
    opened(address).close()


def test_what_is_no_socket_is_not_removed(tmp_path):
    """A path that was mistyped does not cost a file."""
    path = tmp_path / "file"
    path.write_text("keep")

    with pytest.raises(InvalidSetting, match="Address already in use"):
        opened(Unix(str(path)))

    assert "keep" == path.read_text()


def test_a_folder_that_is_missing_is_told(tmp_path):
    """The path of a socket is not made; the sentence names it."""
    before = len(list(Path("/proc/self/fd").iterdir()))

    with pytest.raises(InvalidSetting, match="No such file or directory"):
        opened(Unix(f"{tmp_path}/none/door"))

    assert before == len(list(Path("/proc/self/fd").iterdir()))


def test_a_port_that_needs_a_privilege_says_so(monkeypatch):
    """As that of spamd does, for the user of the service."""

    def refused(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refused)
    with pytest.raises(
        InvalidSetting, match=r"X: .* 127.0.0.1:783: Permission denied\. .* higher one$"
    ):
        opened(Inet("127.0.0.1", 783))


@pytest.mark.parametrize(("asked", "allowed"), [(310, 310), (299, 300), (10**9, 320)])
def test_files_are_allowed_as_far_as_the_system_permits(asked, allowed):
    """Never fewer than before; the log has a limit that is too low."""
    script = (
        "import resource, sys; from app.doors.serving.process import allow_files; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (300, 320)); "
        "allow_files(int(sys.argv[1])); "
        "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = command.run_program(partial(exec, script, {}), [str(asked)])

    assert f"{allowed} 320" == done.stdout.strip()
    assert (asked > allowed) == ("the process may open 320 files" in done.stderr)
