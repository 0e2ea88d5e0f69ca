"""bogofilter, called by its command line as a mail server calls it."""

from __future__ import annotations

import math
import subprocess
from typing import TYPE_CHECKING

from benchmarks.peers.chi_square import log_tail
from benchmarks.peers.peer import Said

if TYPE_CHECKING:
    from pathlib import Path

_SPAM, _HAM, _UNSURE = 0, 1, 2


class Bogofilter:
    """One process for each message that is scored or learned.

    Parameters
    ----------
    folder : Path
        Where its word list lies.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._learned = {True: 0, False: 0}

    def score(self, raw: bytes, /) -> Said:
        """Return its verdict, and a score that does not saturate.

        `-R` prints each token that it used with the logarithms that it adds;
        the spamicity that it prints has six decimals and is 1 for most spam.
        """
        if not any(self._learned.values()):
            return Said.by_probability(0.5, 0.0, spam=False)
        # It crashes with -R while its word list has seen one class only.
        if not all(self._learned.values()):
            done = self._run("-T", raw, (_SPAM, _HAM, _UNSURE))
            score = float(done.stdout.split()[1])
            return Said.by_probability(score, 0.0, spam=done.returncode == _SPAM)
        done = self._run("-R", raw, (_SPAM, _HAM, _UNSURE))
        used, for_ham, for_spam = 0, 0.0, 0.0
        for line in done.stdout.splitlines():
            if line.endswith(b"+"):
                *_, not_spam, is_spam, _ = line.split()
                used += 1
                for_ham -= float(not_spam)
                for_spam -= float(is_spam)
        high, low = log_tail(for_spam, used), log_tail(for_ham, used)
        score = (1 + math.exp(high) - math.exp(low)) / 2
        return Said.by_probability(score, high - low, spam=done.returncode == _SPAM)

    def learn(self, raw: bytes, /, *, spam: bool) -> None:
        """Register a message."""
        self._run("-s" if spam else "-n", raw, (0,))
        self._learned[spam] += 1

    def close(self) -> None:
        """Do nothing: no process is left."""

    def _run(
        self, option: str, raw: bytes, expected: tuple[int, ...]
    ) -> subprocess.CompletedProcess[bytes]:
        command = ["/usr/bin/bogofilter", "-C", "-d", str(self._folder), option]
        done = subprocess.run(command, input=raw, capture_output=True, check=False)
        if done.returncode not in expected:
            msg = f"{command} ended with {done.returncode}: {done.stderr[-300:]!r}"
            raise RuntimeError(msg)
        return done
