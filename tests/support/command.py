"""The command `postbayes`, in processes forked from one that has imported it.

To import the service takes longer than most tests do.  What a command does from its
very start, tests/test_docs.py and tests/end_to_end/test_readme.py run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path

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


def _run(arguments, environment, folder, out, err):
    """Become the command."""
    for number, path in ((0, os.devnull), (1, out), (2, err)):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
    # What multiprocessing opened in its place has a number that workers have not.
    sys.stdin = os.fdopen(0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["postbayes", *arguments]
    from app.doors.cli.entry import main  # noqa: PLC0415  imported by the fork server

    main()
