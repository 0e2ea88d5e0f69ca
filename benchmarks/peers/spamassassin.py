"""SpamAssassin's Bayes in one long process, as spamd runs it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks.peers.peer import Said

_SCRIPT = Path(__file__).with_suffix(".pl")


class SpamAssassin:
    """Its Bayes alone; spam where the probability is above one half.

    Parameters
    ----------
    folder : Path
        Where its database lies.
    minimum : int
        Ham and spam that it must have learned before it says anything; it
        ships with 200.
    """

    def __init__(self, folder: Path, *, minimum: int) -> None:
        self._process = subprocess.Popen(
            ["/usr/bin/perl", str(_SCRIPT), str(folder), str(minimum)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._answer("ready")

    def score(self, raw: bytes, /) -> Said:
        """Return its probability, and the difference of the two tails."""
        said, fine = self._ask("C", raw).split()
        probability = float(said)
        return Said.by_probability(probability, float(fine), spam=probability > 0.5)

    def learn(self, raw: bytes, /, *, spam: bool) -> None:
        """Learn a message."""
        self._ask("S" if spam else "H", raw)

    def close(self) -> None:
        """Let the process end."""
        self._process.communicate(timeout=60)

    def _ask(self, verb: str, raw: bytes) -> str:
        pipe = self._process.stdin
        if pipe is None:
            raise RuntimeError("SpamAssassin has no standard input")
        pipe.write(f"{verb} {len(raw)}\n".encode() + raw)
        pipe.flush()
        return self._answer()

    def _answer(self, expected: str | None = None) -> str:
        pipe = self._process.stdout
        line = pipe.readline().decode().strip() if pipe else ""
        if not line or expected not in {None, line}:
            msg = f"SpamAssassin answered {line!r} and ended; is it installed?"
            raise RuntimeError(msg)
        return line
