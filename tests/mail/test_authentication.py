"""The verified author of a message: who is one, and whom a forger cannot become."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.mail.authentication import VerifiedSender, normal_address, verified_sender
from app.mail.headers import ascii_domain, normal_domain

OURS = frozenset({"mx.example.org"})
FROM = "From: Ann <ann@friends.example>"
VERIFIED = "mx.example.org; dmarc=pass (p=none) header.from=friends.example"
ANN = VerifiedSender("ann@friends.example", "friends.example")


def message(*lines):
    """Return a message with some header fields."""
    return "\r\n".join([*lines, "Subject: noon", "", "At noon?"]).encode()


def results(*values, author=FROM):
    """Return a message with Authentication-Results on top of its author."""
    return message(*(f"Authentication-Results: {value}" for value in values), author)


@pytest.mark.parametrize(
    "value",
    [
        VERIFIED,
        VERIFIED.upper(),
        "mx.example.org 1;\r\n\tdmarc = pass header.from = friends.example.",
        'mx.example.org; dmarc/1=pass reason="a; b" header.from=friends.example',
        "mx.example.org; spf=fail smtp.mailfrom=x@y.example; "
        "dmarc=pass header.from=friends.example",
        "mx.example.org; dkim=pass (2048-bit key) header.d=friends.example",
        "mx.example.org; dkim=fail header.d=friends.example; "
        "dkim=pass header.i=@friends.example header.b=abc",
        "mx.example.org; spf=pass smtp.mailfrom=bounce@friends.example",
        "mx.example.org; spf=pass smtp.mailfrom=spaß@friends.example",
        'mx.example.org; spf=pass smtp.mailfrom="a;b c"@friends.example',
        "mx.example.org; dmarc=none header.from=friends.example; "
        "spf=pass smtp.mailfrom=friends.example",
    ],
)
def test_a_result_of_our_server_verifies_the_author(value):
    """Every form that RFC 8601 allows is understood."""
    assert ANN == verified_sender(results(value), OURS)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "mx.example.org; none",
        "mx.example.net; dmarc=pass header.from=friends.example",
        "(by) mx.example.org; dmarc=pass header.from=friends.example",
        '"mx.example.org"; dmarc=pass header.from=friends.example',
        "xmx.example.org; dmarc=pass header.from=friends.example",
        "mx.example.org; dmarc=pass header.from=evil.example",
        "mx.example.org; dmarc=pass",
        "mx.example.org; dmarc=pass header.from=example",
        "mx.example.org; dmarc=pass header.from=news.friends.example",
        "mx.example.org; dkim=pass header.d=evilfriends.example",
        "mx.example.org; dkim=pass header.d=news.friends.example",
        "mx.example.org; dkim=neutral header.d=friends.example",
        "mx.example.org; spf=pass smtp.helo=friends.example",
        "mx.example.org; spf=softfail smtp.mailfrom=friends.example",
        "mx.example.org; arc=pass header.from=friends.example",
        "mx.example.org; dmarc=fail header.from=friends.example; "
        "dkim=pass header.d=friends.example",
        # What a sender may write into an address that a server quotes.
        'mx.example.org; spf=pass smtp.mailfrom="; dmarc=pass '
        'header.from=friends.example; x="@evil.example',
        'mx.example.org; spf=pass smtp.mailfrom=evil.example (of "a); dmarc=pass '
        'header.from=friends.example (b"@evil.example)',
        "mx.example.org; spf=pass (of ; dmarc=pass header.from=friends.example ) "
        "smtp.mailfrom=evil.example",
        "mx.example.org; spf=pass smtp.mailfrom==?us-ascii?q?=3B_dmarc=3Dpass_"
        "header.from=3Dfriends.example=3B?=@evil.example",
        "mx.example.org; dmarc=pass header.from=friends.example (never closed",
        'mx.example.org; dmarc=pass header.from=friends.example x="never closed',
        "mx.example.org; dmarc=pass header.from=friends.example )",
        "mx.example.org; dmarc=pass header.from=friends.example \\",
    ],
)
def test_no_other_result_verifies_anybody(value):
    """A result of another server, for another author, or of another kind is not."""
    assert verified_sender(results(value), OURS) is None


def test_nobody_is_verified_where_no_server_is_believed():
    """Nobody is verified until an operator names a server."""
    assert verified_sender(results(VERIFIED), frozenset()) is None


def test_a_domain_above_vouches_too():
    """An organisation can verify the authors of its departments."""
    author = "From: ann@mail.friends.example"
    signed = "mx.example.org; dkim=pass header.d=friends.example"
    found = verified_sender(results(signed, author=author), OURS)

    assert VerifiedSender("ann@mail.friends.example", "friends.example") == found
    assert "mail.friends.example" == found.domain


@pytest.mark.parametrize(
    "author",
    [
        "ann@friends.example",
        "<ann@friends.example>",
        '"Ann; <bob@evil.example>" <Ann@Friends.Example>',
        "Ann (bob@evil.example) <ann@friends.example>",
        "=?utf-8?q?bob=40evil.example?=\r\n\t<ann@friends.example>",
    ],
)
def test_the_author_is_the_one_address_of_from(author):
    """Quotes, comments and encoded words in From do not matter."""
    assert ANN == verified_sender(results(VERIFIED, author=f"From: {author}"), OURS)


@pytest.mark.parametrize(
    "author",
    [
        "ann@friends.example, bob@friends.example",
        "bob@evil.example <ann@friends.example>",
        "<bob@evil.example> <ann@friends.example>",
        "<ann@friends.example> bob",
        "Friends: ann@friends.example;",
        "<ann@friends.example",
        '"Ann <ann@friends.example>',
        "änn\uff20evil.example@friends.example",
        "änn\u200b@friends.example",
        '"a b"@friends.example',
        "ann",
        "",
    ],
)
def test_a_doubtful_author_is_nobody(author):
    """Programs differ in the author that they show, and a forger would choose."""
    assert verified_sender(results(VERIFIED, author=f"From: {author}"), OURS) is None


def test_two_authors_are_nobody():
    """The name of the second field may end in a blank."""
    again = "From : bob@evil.example"
    raw = message(f"Authentication-Results: {VERIFIED}", FROM, again)

    assert verified_sender(raw, OURS) is None
    assert verified_sender(message(f"Authentication-Results: {VERIFIED}"), OURS) is None


def test_results_below_the_next_received_do_not_count():
    """They were there when the message came to the site."""
    field = f"Authentication-Results: {VERIFIED}"
    ours = "Authentication-Results: mx.example.org; spf=none"
    hop = "Received: from a by b; Mon, 23 Nov 2026 09:00:00 +0000"

    assert ANN == verified_sender(message(hop, field, hop, FROM), OURS)
    assert ANN == verified_sender(message(ours, "X-Filter: 1", field, FROM), OURS)
    assert verified_sender(message(hop, ours, hop, field, FROM), OURS) is None


def test_the_topmost_result_of_a_method_counts():
    """A server writes its own above those that came with the message."""
    own, forged = (
        f"mx.example.org; dkim=pass header.d={domain}"
        for domain in ("evil.example", "friends.example")
    )

    assert verified_sender(results(own, forged), OURS) is None
    assert ANN == verified_sender(results(forged, own), OURS)


def test_results_of_dmarc_have_to_agree():
    """One of them may have come with the message, or in an address that is quoted."""
    assert ANN == verified_sender(results(VERIFIED, VERIFIED), OURS)
    for other in ("none", "fail", "pass header.from=evil.example"):
        one = f"mx.example.org; dmarc={other}"
        assert verified_sender(results(one, VERIFIED), OURS) is None
        assert verified_sender(results(VERIFIED, one), OURS) is None


def test_a_field_within_another_is_none():
    """A carriage return alone ends no line for the mail server that removes forgeries."""
    forged = f"X-Note: a\rAuthentication-Results: {VERIFIED}"

    assert verified_sender(message(forged, FROM), OURS) is None


def test_what_is_cut_off_verifies_nobody():
    """A second author might stand there."""
    filler = "X-Filler: " + "a" * 300_000

    assert (
        verified_sender(results(VERIFIED, author=f"{FROM}\r\n{filler}"), OURS) is None
    )
    many = "\r\n".join([FROM, *["X-A: 1"] * 1000])
    assert verified_sender(results(VERIFIED, author=many), OURS) is None


@given(st.text('mx.;="\\() \t\r\nadkimspfr<>@', max_size=80), st.binary(max_size=40))
def test_any_header_is_read(value, more):
    """No header raises an error, and none is trusted."""
    raw = results(f"evil.example; {value}") + more

    assert verified_sender(raw, OURS) in {None, ANN}
    assert verified_sender(value.encode() + more, OURS) is None


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("<Ann@Example.org>", "ann@example.org"),
        (" ann+news@example.org. ", "ann+news@example.org"),
        ("ann@example", None),
        ("ann@exa mple.org", None),
        ("a@b@example.org", None),
        ("änn@example.org", "änn@example.org"),
        ("A\u0308NN@Example.org", "änn@example.org"),
        ("有希@例え.テスト", "有希@例え.テスト"),
        ("有希@xn--r8jz45g.xn--zckzah", "有希@例え.テスト"),
        ("ann@xn--99999.example", "ann@xn--99999.example"),
        ("änn@b\udce9.example", None),
        ("\ud800nn@example.org", None),
        ("x" * 65 + "@example.org", None),
        ("ann@" + "x." * 130 + "org", None),
        ("<>", None),
    ],
)
def test_an_address_has_one_form(text, address):
    """Recipients and authors are compared in this form."""
    assert address == normal_address(text)


READABLE, ENCODED = "bücher.example", "xn--bcher-kva.example"


@pytest.mark.parametrize("author", [READABLE, ENCODED, "BU\u0308CHER.example"])
@pytest.mark.parametrize("named", [READABLE, ENCODED, f'"{READABLE}"'])
def test_a_domain_is_the_same_in_both_spellings(author, named):
    """A server writes either, whichever the message has (RFC 8616 section 5)."""
    value = f"mx.example.org; dmarc=pass header.from={named}"
    found = verified_sender(results(value, author=f"From: Änn <änn@{author}>"), OURS)

    assert VerifiedSender(f"änn@{READABLE}", READABLE) == found


def test_bytes_that_are_no_text_are_nobodys():
    """A header in Latin-1 has no address that everybody reads alike."""
    value = f"mx.example.org; dmarc=pass header.from={ENCODED}"
    raw = results(value, author="From: ann@bücher.example")

    assert verified_sender(raw, OURS) is not None
    assert verified_sender(raw.replace("ü".encode(), b"\xfc"), OURS) is None


@pytest.mark.parametrize(
    "domain",
    [
        # A Cyrillic letter, and one that is not shown.
        "friends.ex\u0430mple",
        "fri\u200dends.example",
        # The encoded form of one with a wide letter, which nobody can register.
        "xn--riends-oy68a.example",
        "friends.example\u2024x",
    ],
)
def test_a_look_alike_of_a_domain_is_another(domain):
    """The results about it verify nobody of the domain that it looks like."""
    for value in (f"dmarc=pass header.from={domain}", f"dkim=pass header.d={domain}"):
        raw = results(f"mx.example.org; {value}")

        assert verified_sender(raw, OURS) is None


def test_a_look_alike_of_a_server_is_not_believed():
    """The rule of the mail server that removes forgeries does not know it."""
    value = "m\u212a.example.org; dmarc=pass header.from=friends.example"

    assert verified_sender(results(value), {"mk.example.org"}) is None
    assert ANN == verified_sender(
        results(value.replace("\u212a", "K")), {"mk.example.org"}
    )


@pytest.mark.parametrize(
    "name", ["straße", "STRA\u1e9eE", "βόλος", "βόλο\u03f2", "βόλο\U0001d6d3"]
)
def test_a_domain_that_old_servers_read_as_another_is_verified_by_its_a_label(name):
    """By RFC 3490, the owner of strasse.example can sign for the letters alone."""
    letters = f"{name}.example"
    encoded = ascii_domain(letters)
    for author in (letters, encoded):
        by_letters, by_label = (
            verified_sender(
                results(
                    f"mx.example.org; dmarc=pass header.from={named}",
                    author=f"From: a@{author}",
                ),
                OURS,
            )
            for named in (letters, encoded)
        )

        assert by_letters is None
        assert normal_domain(encoded) == by_label.domain
