"""The command `postbayes`, in processes forked from one that has imported it.

To import the service takes longer than most tests do.  What a command does from its
very start, tests/doors/test_cli_signals.py and the benchmarks run.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from contextlib import contextmanager, suppress
from multiprocessing import get_context, util
from pathlib import Path

from prometheus_client import values

# Ends what hangs.  A busy machine does not: five processes that start at once have
# taken more than a minute where twenty others were at work.
PATIENCE = 600
_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.support.imported"])


class Command:
    """A command that runs.

    Parameters
    ----------
    arguments : sequence of str
        Behind `postbayes`.
    environment : mapping of str to str
        All of its environment.
    folder : Path
        Where it runs.
    out, err : Path
        Files that it appends to.
    """

    def __init__(self, arguments, *, environment, folder, out, err):
        self._process = _CONTEXT.Process(
            target=_run,
            args=(list(arguments), dict(environment), str(folder), str(out), str(err)),
        )
        self._process.start()
        self.pid = self._process.pid

    def poll(self):
        """Return its exit code, or the negative signal that ended it; None: it runs."""
        return self._process.exitcode

    def wait(self, seconds=PATIENCE):
        """Wait for its end, and return the same."""
        self._process.join(seconds)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(str(self._process), seconds)
        return code

    def send_signal(self, number):
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        """End it as a power cut would."""
        self.send_signal(signal.SIGKILL)


def forked(function, *arguments):
    """Call a function in such a process, and return the exit code of that."""
    process = _CONTEXT.Process(target=function, args=arguments)
    process.start()
    process.join(PATIENCE)
    return process.exitcode


def run_program(main, arguments, *, folder="."):
    """Run the main function of another program in such a process, as `run` does."""
    with tempfile.TemporaryDirectory() as room:
        out, err = Path(room, "out"), Path(room, "err")
        given = [str(argument) for argument in arguments]
        code = forked(_run_program, main, given, {**os.environ}, folder, out, err)
        return subprocess.CompletedProcess(
            arguments, code, out.read_text(), err.read_text()
        )


def run(arguments, *, environment, folder):
    """Run a command to its end, as `subprocess.run` does."""
    with tempfile.TemporaryDirectory() as room:
        out, err = Path(room, "out"), Path(room, "err")
        command = Command(
            arguments, environment=environment, folder=folder, out=out, err=err
        )
        try:
            code = command.wait()
        finally:
            command.kill()
        return subprocess.CompletedProcess(
            arguments, code, out.read_text(), err.read_text()
        )


_CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as other:
    other.connect({address!r})
    said = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
    socket.send_fds(other, [b"."], [0, 1, 2])
    other.sendall(said)
    other.shutdown(socket.SHUT_WR)
    sys.exit(int(other.recv(9)))
"""


@contextmanager
def on_path():
    """Give a folder whose program `postbayes` has such a process become the command.

    For scripts that run it several times.
    """
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as door:
        program, address = Path(folder, "postbayes"), f"{folder}/socket"
        program.write_text(_CLIENT.format(python=sys.executable, address=address))
        program.chmod(0o700)
        door.bind(address)
        door.listen()
        server = _CONTEXT.Process(target=_serve_scripts, args=(door,))
        server.start()
        try:
            yield folder
        finally:
            server.kill()
            server.join()


def _serve_scripts(door):
    """Become the command for each script that connects, in a process of its own."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        with door.accept()[0] as script:
            if not os.fork():
                door.close()
                _become(script)


def _become(script):
    """Become the command with what a script has, and report its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, files, _, _ = socket.recv_fds(script, 1, 3)
    arguments, environment, folder = json.loads(script.makefile().read())
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode) for number, mode in enumerate("rww")
    )
    code = 1
    try:
        _main(arguments, environment, folder)
    except SystemExit as end:
        code = end.code or 0
    finally:
        if code == 1:
            traceback.print_exc()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        script.send(str(code).encode())
        os._exit(0)


def _forked_server(_path, arguments, descriptors):
    """Run what Python would be started for, `-c` and lines, in a fork of this process.

    Workers of a service are forked from it; it has imported all, so that nobody waits
    2 s for that.  What a new process has not is undone.
    """
    child = os.fork()
    if child:
        return child
    try:
        opened = {int(path.name) for path in Path("/proc/self/fd").iterdir()}
        for descriptor in opened - {0, 1, 2, *descriptors}:
            with suppress(OSError):
                os.close(descriptor)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        gc.enable()
        # It is chosen by the environment at the import.
        values.ValueClass = values.get_value_class()
        # Behind the lines, Python 3.14 gives the arguments of this process.
        _, lines, *rest = arguments[arguments.index("-c") :]
        sys.argv = ["-c", *rest]
        exec(lines, {})  # noqa: S102  (lines of the standard library)
    finally:
        os._exit(0)


def _run(arguments, environment, folder, out, err):
    """Become the command."""
    _print_to(out, err)
    _main(arguments, environment, folder)


def _run_program(main, arguments, environment, folder, out, err):
    """Become the program."""
    _print_to(out, err)
    _enter(arguments, environment, folder)
    main()


def _print_to(out, err):
    """Read nothing, and print to files."""
    for number, path in ((0, os.devnull), (1, out), (2, err)):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
    # What multiprocessing opened in its place has a number that workers have not.
    sys.stdin = os.fdopen(0)


def _main(arguments, environment, folder):
    """Become the command, which prints to where this process does."""
    _enter(arguments, environment, folder)
    from app.doors.cli.__main__ import main  # noqa: PLC0415  imported by the fork server

    main()


def _enter(arguments, environment, folder):
    """Have this process called as a program is called."""
    os.chdir(folder)
    # A test that has lines of its own run in each process has it start Python.
    if environment.get("PYTHONPATH") == os.environ.get("PYTHONPATH"):
        util.spawnv_passfds = _forked_server
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["postbayes", *arguments]
