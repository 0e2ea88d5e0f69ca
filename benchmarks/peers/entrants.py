"""Entrants: the filters that take part, and their programs."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.peers.bogofilter import Bogofilter
from benchmarks.peers.libraries import River, ScikitLearn
from benchmarks.peers.linear import FollowTheLeader, FourGramRegression, RelaxedSVM
from benchmarks.peers.markov import Markov
from benchmarks.peers.osbf import SparsePairs
from benchmarks.peers.ours import Postbayes
from benchmarks.peers.rspamd import Rspamd
from benchmarks.peers.spamassassin import SpamAssassin

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.peers.peer import Peer

_ROOT: Final = Path(__file__).parent.parent.parent


@dataclass(frozen=True, slots=True)
class Entrant:
    """A filter that can be started.

    Parameters
    ----------
    start : callable
        Starts one that has learned nothing, which keeps what it has in a folder.
    program : callable
        Says what is started, to the version: its results stand for no other.
    """

    start: Callable[[Path], Peer]
    program: Callable[[], str]


def _said_by(*command: str) -> str:
    """Return the first line that a command prints."""
    done = subprocess.run(
        command, cwd=_ROOT, capture_output=True, check=True, text=True
    )
    return done.stdout.partition("\n")[0].strip()


def _bogofilter() -> str:
    return _said_by("/usr/bin/bogofilter", "-V")


def _spamassassin() -> str:
    return _said_by("/usr/bin/spamassassin", "-V")


def _rspamd() -> str:
    return _said_by("/usr/bin/rspamd", "--version")


def _scikit_learn() -> str:
    return f"scikit-learn {version('scikit-learn')}"


def _river() -> str:
    return f"river {version('river')}"


def _postbayes() -> str:
    """Return the commit, or that there is no commit with what runs here."""
    if _said_by("git", "status", "--porcelain", "--", "app"):
        return "Postbayes, not committed"
    commit = _said_by("git", "log", "-1", "--format=%h", "--abbrev=10", "--", "app")
    return f"Postbayes {commit}"


def _here(file: str) -> str:
    """Return the digest of a program of this folder."""
    content = (Path(__file__).parent / file).read_bytes()
    return f"{file} {sha256(content).hexdigest()[:10]}"


ENTRANTS: Final = {
    "Postbayes": Entrant(lambda _: Postbayes(), _postbayes),
    "bogofilter": Entrant(Bogofilter, _bogofilter),
    "SpamAssassin Bayes, no minimum": Entrant(
        lambda folder: SpamAssassin(folder, minimum=1), _spamassassin
    ),
    "rspamd Bayes, no minimum": Entrant(Rspamd, _rspamd),
    "scikit-learn MultinomialNB": Entrant(
        lambda _: ScikitLearn("MultinomialNB"), _scikit_learn
    ),
    "scikit-learn SGD, log loss": Entrant(
        lambda _: ScikitLearn("SGDClassifier"), _scikit_learn
    ),
    "River MultinomialNB": Entrant(lambda _: River(), _river),
    "sparse pairs, near errors": Entrant(
        lambda _: SparsePairs(), lambda: _here("osbf.py")
    ),
    "relaxed SVM, 4-grams": Entrant(lambda _: RelaxedSVM(), lambda: _here("linear.py")),
    "Markov compression": Entrant(lambda _: Markov(), lambda: _here("markov.py")),
    "logistic regression, 4-grams": Entrant(
        lambda _: FourGramRegression(), lambda: _here("linear.py")
    ),
    "FTRL, hashed tokens": Entrant(
        lambda _: FollowTheLeader(), lambda: _here("linear.py")
    ),
}
"""The filters, by the name that the tables have."""
