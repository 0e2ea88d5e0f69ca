"""Which host does a name stand for, and what does it look like?

A host beyond ASCII has two spellings: that of people (``bücher.example``) and
that of the wire (``xn--bcher-kva.example``, RFC 3492).  Here both are the first.

Contract of this file: every expression is linear in its input.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from app.features import tricks

ACE: Final = "xn--"
"""What a label begins with that stands for one beyond ASCII (RFC 5890, 2.3.2.1)."""

# RFC 1035, 2.3.4. Decoding is quadratic in the label, so that no longer one is.
_MAX_LABEL: Final = 63
# What browsers take for a dot in a host (RFC 3490, 3.1).
_DOTS: Final = re.compile("[\u3002\uff0e\uff61]")


def decoded(host: str) -> str:
    """Return a host as people write it, in one case and one form.

    Parameters
    ----------
    host : str
        As it stands in a URL. What is no valid punycode stays as it is.

    Examples
    --------
    >>> decoded("xn--bcher-kva.example"), decoded("BÜCHER。example")
    ('bücher.example', 'bücher.example')
    >>> decoded("xn--99999.example")
    'xn--99999.example'
    """
    labels = _DOTS.sub(".", host).lower().split(".")
    whole = ".".join([_label(label) for label in labels])
    if whole.isascii():
        return whole
    return unicodedata.normalize("NFKC", whole).casefold()


def is_lookalike(host: str) -> bool:
    """Return whether a host is written to be taken for another.

    Parameters
    ----------
    host : str
        As `decoded` returns it.

    Notes
    -----
    A label mixes Latin letters with those of a script that has letters like
    them, or has nothing but such letters although the host ends in a Latin
    label: ``море.рф`` is a word, ``море.com`` may be meant for ``mope.com``.
    Precedent: Chromium shows such hosts in punycode ("Internationalized Domain
    Names (IDN) in Google Chrome", docs/idn.md, rules 6 and 11).

    Examples
    --------
    >>> is_lookalike("p\u0430ypal.example"), is_lookalike("bücher.example")
    (True, False)
    """
    labels = [label for label in host.split(".") if not label.isascii()]
    if tricks.is_mixed(host):
        return True
    ends_latin = host.rpartition(".")[2].isascii()
    return ends_latin and any(tricks.as_latin(label).isascii() for label in labels)


def _label(label: str) -> str:
    """Return a label decoded, if it is valid punycode of something else."""
    if not label.startswith(ACE) or len(label) > _MAX_LABEL:
        return label
    try:
        name = label.removeprefix(ACE).encode("ascii").decode("punycode")
    # UnicodeError: not ASCII, or no punycode.
    except UnicodeError:
        return label
    # ASCII needs no encoding; surrogates and controls are no letters.
    return label if name.isascii() or not name.isprintable() else name
