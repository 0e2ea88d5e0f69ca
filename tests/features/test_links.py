"""Links are features by host, by the domains above it, and by what is odd."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.features.tokens import words_of
from app.features.words import of_link, parents
from app.mail.message import Link


def marks(url, element="a", text=""):
    """Return what is odd about a link."""
    found = words_of(of_link(Link(url, element, text)))
    return [name[6:-1] for name in found if name.startswith("link:(")]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://example.com/", []),
        ("http://192.0.2.1/x", ["address"]),
        ("http://3221225985/x", ["number"]),
        ("http://0xc0.0x00.0x02.0x01/", ["number"]),
        ("http://example.com:8080/", ["port"]),
        ("http://www.bank.example@evil.example/", ["user-info"]),
        ("http://xn--bcher-kva.example/", ["idna"]),
        ("http://b\u00fccher.example/", ["idna"]),
        ("http://\uff42ank\u3002example/", ["idna"]),
        ("http://p\u0430ypal.example/", ["idna", "lookalike"]),
        ("http://XN--pypal-4ve.example/", ["idna", "lookalike"]),
        ("http://xn--e1awd7f.example/", ["idna", "lookalike"]),
        ("http://xn--e1afmkfd.xn--p1ai/", ["idna"]),
        ("https://bit.ly/abc", ["shortener"]),
        ("http://example.com/%61dmin", ["escaped"]),
        ("http://%65xample.com/", ["escaped"]),
        ("http:\\\\192.0.2.1\\x", ["address"]),
        ("data:text/html;base64,AAAA", ["data"]),
        ("cid:part1@example.com", ["cid"]),
        ("javascript:void(0)", ["javascript"]),
        ("mailto:ann@example.org", []),
        ("", []),
    ],
)
def test_odd_targets_are_marked(url, expected):
    """Whatever hides where a link leads is a feature."""
    assert expected == marks(url)


@pytest.mark.parametrize(
    ("url", "text", "differs"),
    [
        ("http://example.com/a", "www.example.com", False),
        ("http://login.example.com/", "example.com", False),
        ("http://example.com/", "http://login.example.com/x", False),
        ("http://evil.example/", "www.bank.example", True),
        ("http://evil.example/bank.example", "https://bank.example/login", True),
        ("http://192.0.2.1/", "www.bank.example", True),
        ("http://192.0.2.1/", "192.0.2.1", False),
        ("http://xn--bcher-kva.example/", "www.b\u00fccher.example", False),
        ("http://p\u0430ypal.example/", "paypal.example", True),
        ("http://evil.example/", "click here", False),
        ("http://evil.example/", "ann@bank.example", False),
        ("http://evil.example/", "", False),
        ("mailto:ann@evil.example", "bank.example", False),
    ],
)
def test_a_link_that_is_shown_as_another_is_marked(url, text, differs):
    """Only a text that is an address itself can contradict the target."""
    assert differs == ("other-host" in marks(url, text=text))


def test_only_links_to_click_on_can_lead_elsewhere():
    """Other elements show no address."""
    assert ["form"] == marks("http://evil.example/", "form", "bank.example")


@pytest.mark.parametrize(
    ("element", "text", "expected"),
    [
        ("img", "1x1", ["image 1x1"]),
        ("img", "", []),
        ("iframe", "", ["iframe"]),
        ("text", "", []),
    ],
)
def test_the_element_of_a_link_is_a_feature(element, text, expected):
    """Forms and frames are marked, and images by their size."""
    assert expected == marks("http://example.com/", element, text)


def test_the_domains_above_a_host_are_features():
    """A host that is new every day has parents that are not."""
    found = words_of(of_link(Link("http://x17.mail.shop.example.com/", "a")))

    assert [
        "link:http",
        "link:x17.mail.shop.example.com",
        "link:.mail.shop.example.com",
        "link:.shop.example.com",
        "link:.example.com",
    ] == found


def test_parents_are_bounded():
    """A host of a hundred labels has no hundred parents, an address none."""
    assert 3 == len(parents("a." * 100 + "com"))
    assert () == parents("192.0.2.1")
    assert () == parents("com")
    assert () == parents("")


@given(
    st.text(max_size=100), st.sampled_from(["a", "img", "form"]), st.text(max_size=40)
)
def test_any_link_has_features(url, element, text):
    """Reading a link is total."""
    found = words_of(of_link(Link(url, element, text)))

    assert all(name.startswith("link:") for name in found)


@pytest.mark.parametrize(
    "url",
    [
        "http://b\u00fccher.example/a",
        "http://B\u00dcCHER.example/a",
        unicodedata.normalize("NFD", "http://b\u00fccher.example/a"),
        "http://b\u00fccher\u3002example/a",
        "http://xn--bcher-kva.example/a",
        "http://XN--BCHER-KVA.EXAMPLE/a",
    ],
)
def test_a_host_is_one_however_it_is_spelled(url):
    """In the letters of people, of the wire, and with any dot."""
    expected = ["link:http", "link:b\u00fccher.example", "link:a", "link:(idna)"]

    assert sorted(expected) == sorted(words_of(of_link(Link(url, "a"))))
