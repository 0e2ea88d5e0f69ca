"""Links that are written out in a text are found."""

from __future__ import annotations

import pytest

from app.mail import html
from app.mail.limits import MAX_LINK_CHARS, MAX_LINKS
from app.mail.message import links_in


@pytest.mark.parametrize(
    ("text", "urls"),
    [
        ("see http://example.com/a?b=c, now", ["http://example.com/a?b=c"]),
        ("<https://example.com>", ["https://example.com"]),
        (
            "(www.example.com) HTTP://EXAMPLE.ORG.",
            ["www.example.com", "HTTP://EXAMPLE.ORG"],
        ),
        ("ftp://example.com/x", ["ftp://example.com/x"]),
        ("nothing: // here www", []),
        ("", []),
    ],
)
def test_addresses_in_text_are_links(text, urls):
    """A link ends before blanks, brackets and the punctuation of its sentence."""
    assert urls == [link.url for link in links_in(text)]


def test_links_in_text_are_bounded():
    """Number and length have limits."""
    found = links_in("http://example.com/" + "x" * 5_000 + " www.example.com" * 2_000)

    assert MAX_LINKS == len(found)
    assert MAX_LINK_CHARS >= max(len(link.url) for link in found)


def test_targets_are_trimmed_as_browsers_do():
    """Line ends within a target do not hide its host."""
    assert "http://example.com" == html.link(" http://exa\nmple.com ", "a").url
