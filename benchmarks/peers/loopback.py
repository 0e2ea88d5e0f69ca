"""Loopback: a namespace without a network, for filters that must look nothing up."""

from __future__ import annotations

import os
import shlex
import socket
import sys


def alone_with_loopback(module: str) -> None:
    """Go on in a network namespace without the network, unless this is one.

    Parameters
    ----------
    module : str
        What is run there anew, with the same arguments.
    """
    if {name for _, name in socket.if_nameindex()} == {"lo"}:
        return
    again = shlex.join([sys.executable, "-m", module, *sys.argv[1:]])
    shell = f"ip link set lo up && exec {again}"
    command = ["unshare", "--net", "--map-root-user", "sh", "-c", shell]
    os.execvp(command[0], command)  # noqa: S606  unshare is the point
