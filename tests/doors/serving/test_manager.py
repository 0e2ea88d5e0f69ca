"""Service manager: systemd reads what a unit of `Type=notify` has to send."""

from __future__ import annotations

import os
import socket

import pytest

from app.doors.serving.process import ServiceManager


@pytest.fixture(params=["file", "abstract"])
def systemd(request, tmp_path):
    """A socket as systemd has it, and the variables that name it."""
    name = str(tmp_path / "notify")
    if request.param == "abstract":
        name = f"@postbayes-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name.replace("@", "\0"))
        listening.settimeout(10)
        yield listening, {"NOTIFY_SOCKET": name}


def test_each_state_is_a_datagram(systemd):
    """It consists of lines `NAME=VALUE`."""
    listening, environment = systemd
    manager = ServiceManager(environment)
    manager.ready()
    with manager.reloading():
        pass
    manager.stopping()
    sent = [listening.recv(4096).decode() for _ in range(4)]

    assert ["READY=1", "READY=1", "STOPPING=1"] == [sent[0], *sent[2:]]
    reloading, moment = sent[1].splitlines()
    assert "RELOADING=1" == reloading
    assert moment.removeprefix("MONOTONIC_USEC=").isdecimal()


def test_a_reload_that_fails_has_ended(systemd):
    """The service goes on as it was, so systemd must not wait."""
    listening, environment = systemd
    with (
        pytest.raises(ValueError, match="setting"),
        ServiceManager(environment).reloading(),
    ):
        raise ValueError("a setting")

    assert listening.recv(4096).startswith(b"RELOADING=1\n")
    assert b"READY=1" == listening.recv(4096)


def test_the_watchdog_is_served_twice_as_often_as_it_asks(systemd):
    """Within the time that it gives, whatever one of them is delayed by."""
    listening, environment = systemd
    environment |= {"WATCHDOG_USEC": "4000000", "WATCHDOG_PID": str(os.getpid())}
    now = [0.0]
    manager = ServiceManager(environment, lambda: now[0])
    for now[0] in (0.0, 0.1, 1.9, 2.0, 3.9, 4.0):
        manager.beat()
    manager.stopping()
    sent = [listening.recv(4096) for _ in range(4)]

    assert [b"WATCHDOG=1"] * 3 + [b"STOPPING=1"] == sent


@pytest.mark.parametrize(
    "asked", [{}, {"WATCHDOG_USEC": "4000000", "WATCHDOG_PID": "1"}]
)
def test_a_watchdog_of_others_is_not_served(systemd, asked):
    """The same holds without a watchdog."""
    listening, environment = systemd
    manager = ServiceManager(environment | asked)
    manager.beat()
    manager.stopping()

    assert b"STOPPING=1" == listening.recv(4096)


def test_what_a_process_starts_is_kept_from_the_manager(systemd):
    """Only the main process of a unit may notify systemd."""
    listening, environment = systemd
    manager = ServiceManager(environment)
    manager.alone()
    ServiceManager(environment).ready()
    manager.stopping()

    assert b"STOPPING=1" == listening.recv(4096)


def test_without_a_manager_nothing_is_sent():
    """There is no warning either, since many services run without a manager."""
    manager = ServiceManager({})
    manager.ready()
    with manager.reloading():
        manager.beat()
    manager.stopping()


def test_a_manager_that_is_gone_ends_no_service(tmp_path, caplog):
    """The log says what could not be done, once."""
    manager = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")})
    for _ in range(3):
        manager.ready()

    [line] = caplog.messages
    assert line.startswith(f"{tmp_path / 'gone'} cannot be notified: ")
