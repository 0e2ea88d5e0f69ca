"""Recipients: who receives a message says which profile answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.mail.headers import ascii_domain
from app.services.recipients import Recipients, parse_aliases

NAMES = {
    "default",
    "example.org",
    "ann@example.org",
    "xn--bcher-kva.example",
    "bob+lists@example.org",
    "carl",
    "Dora@example.org",
    "shop",
}

ALIASES = {
    "sales@example.org": "ann@example.org",
    "post@example.net": "nobody@example.org",
    "@example.com": "shop",
    "root": "carl",
}


def recipients(aliases=ALIASES):
    """Return the recipients of a site with some profiles and aliases."""
    return Recipients(NAMES, site="default", aliases=aliases)


@pytest.mark.parametrize(
    ("profile", "recipient"),
    [
        ("ann@example.org", "ann@example.org"),
        ("ann@example.org", "<Ann@Example.ORG>"),
        ("ann@example.org", " <ann@example.org.> "),
        ("ann@example.org", "ann+shoes@example.org"),
        ("bob+lists@example.org", "bob+lists@example.org"),
        ("example.org", "bob@example.org"),
        ("example.org", "+tag@example.org"),
        ("Dora@example.org", "Dora@example.org"),
        ("example.org", "dora@example.org"),
        ("default", "bob@sub.example.org"),
        ("xn--bcher-kva.example", "<Änn@BU\u0308CHER.example>"),
        ("xn--bcher-kva.example", "ann@Xn--Bcher-Kva.example"),
        ("carl", "carl"),
        ("carl", "Carl+news"),
        ("default", "carl@example.info"),
        ("default", ""),
        ("default", "<>"),
        ("default", "@"),
        ("default", "nobody"),
        ("default", "a" * 1000 + "@example.org"),
        # The limits of addresses are in octets (RFC 6531 section 3.3).
        ("default", "é" * 200 + "@example.org"),
    ],
)
def test_the_most_personal_profile_answers(profile, recipient):
    """Address, address without its detail, domain, site: the first that exists."""
    assert profile == recipients({}).profile(recipient)


@pytest.mark.parametrize(
    ("profile", "recipient"),
    [
        ("ann@example.org", "sales@example.org"),
        ("ann@example.org", "Sales+today@example.org"),
        ("example.org", "post@example.net"),
        ("shop", "whoever@example.com"),
        ("carl", "root"),
        ("ann@example.org", "ann@example.org"),
    ],
)
def test_an_alias_is_looked_up_in_place_of_the_recipient(profile, recipient):
    """What it stands for has a domain too; where neither exists, one goes on."""
    assert profile == recipients().profile(recipient)


@pytest.mark.parametrize(
    ("profile", "several"),
    [
        ("default", []),
        ("ann@example.org", ["ann@example.org"]),
        ("ann@example.org", ["ann@example.org", "sales@example.org"]),
        ("example.org", ["ann@example.org", "bob@example.org"]),
        ("default", ["ann@example.org", "ann@example.net"]),
    ],
)
def test_several_recipients_have_the_profile_that_they_share(profile, several):
    """One user's training does not decide about another's mail."""
    assert profile == recipients().shared(several)
    assert profile == recipients().shared(several[::-1])


@given(st.text(), st.lists(st.text(alphabet="ab+@.<>ABé \n", max_size=12)))
def test_every_text_has_a_profile_that_exists(recipient, several):
    """Whatever a stranger writes as a recipient, somebody answers."""
    some = recipients()

    assert some.profile(recipient) in NAMES
    assert some.shared(several) in NAMES
    assert some.shared([recipient]) == some.profile(recipient)


def test_the_domain_of_a_recipient_is_encoded_once(monkeypatch):
    """A domain of other scripts takes a millisecond, and a message has 1,000."""
    encoded = []

    def encode(domain):
        encoded.append(domain)
        return ascii_domain(domain)

    monkeypatch.setattr("app.services.recipients.ascii_domain", encode)
    some = recipients()
    found = [some.profile("once@bücher.example"), some.shared(["once@bücher.example"])]

    assert ["xn--bcher-kva.example"] * 2 == found
    assert ["bücher.example"] == encoded


def test_a_profile_that_is_made_later_counts_from_then_on():
    """The names are asked at each call."""
    names = {"default"}
    some = Recipients(names, site="default", aliases={})
    before = some.profile("ann@example.org")
    names.add("example.org")

    assert ("default", "example.org") == (before, some.profile("ann@example.org"))


@pytest.mark.parametrize("alias", ["@bücher.example", "@XN--bcher-kva.example"])
def test_an_alias_of_a_domain_has_either_spelling(alias):
    """Mail servers report the one that the sender used."""
    some = recipients(parse_aliases(f"{alias}: shop\n", "aliases"))

    assert "shop" == some.profile("ann@Bücher.example")
    assert "shop" == some.profile("ann@xn--bcher-kva.example")
