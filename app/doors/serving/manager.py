"""Service manager: the notifications that systemd expects of a unit of `Type=notify`.

Contract of this file: one datagram for each notification, and no failure of a manager
ends a service (sd_notify(3)).  Only the process that systemd started may notify it.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from app.services.log import SparingLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, MutableMapping

SOCKET: Final = "NOTIFY_SOCKET"
log = SparingLog(logging.getLogger(__name__))


class ServiceManager:
    """The manager that started this process; without one nothing is sent.

    Parameters
    ----------
    environment : mapping of str to str
        Names its socket, and how often it wants to hear of the process.
    clock : callable
        Returns a time that only grows.  Unit: seconds.
    """

    def __init__(
        self,
        environment: MutableMapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environment = environment
        # The kernel writes the first byte of an abstract address as NUL.
        name = environment.get(SOCKET, "")
        self._address = f"\0{name[1:]}" if name.startswith("@") else name
        self._clock = clock
        self._due = clock()
        self._pause: float | None = None
        whom = environment.get("WATCHDOG_PID", str(os.getpid()))
        microseconds = environment.get("WATCHDOG_USEC", "")
        if microseconds.isdecimal() and whom == str(os.getpid()):
            # sd_watchdog_enabled(3) recommends half of the time.
            self._pause = int(microseconds) / 2e6

    def alone(self) -> None:
        """Keep the processes that this one starts from notifying the manager."""
        self._environment.pop(SOCKET, None)

    def ready(self) -> None:
        """Report that requests are answered."""
        self._send("READY=1")

    def stopping(self) -> None:
        """Report that the process ends."""
        self._send("STOPPING=1")

    def reload_begins(self) -> None:
        """Report that the settings are being read again, until it is `ready`."""
        moment = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={moment}")

    @contextmanager
    def reloading(self) -> Iterator[None]:
        """Report the begin and the end of a reload."""
        self.reload_begins()
        try:
            yield
        finally:
            self.ready()

    def beat(self) -> None:
        """Report that the process is alive, as often as its watchdog asks for it."""
        if self._pause is not None and self._clock() >= self._due:
            self._due = self._clock() + self._pause
            self._send("WATCHDOG=1")

    def _send(self, *assignments: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                # It is read at once; if not, the service does not stand still for it.
                sender.settimeout(1.0)
                sender.sendto("\n".join(assignments).encode(), self._address)
        except OSError as error:
            log.warning("%s cannot be notified: %s", self._address, error)
