"""Lists: what an entry is about, which one counts, and their files."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.access.lists import (
    MAX_ENTRIES,
    Identities,
    ListEntry,
    ListSubject,
    ListTable,
    expiry_of,
    parse_lists,
    require_few,
)
from app.errors import InvalidInput
from app.mail.parse import parse

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def entry(text, nats=-5.0, **given):
    """Return an entry."""
    return ListEntry(
        subject=ListSubject.parse(text),
        nats=nats,
        source="cli:bob",
        created_at=NOW,
        **given,
    )


def found(who, *texts, now=NOW):
    """Return what the entry is about that counts, among some that deny."""
    counted = ListTable([entry(each, 5.0) for each in texts]).find(who, now)
    return None if counted is None else str(counted.subject)


WHO = Identities(
    addresses=("ann@mail.example.org",),
    lists=("news.example.net",),
    client="192.0.2.7",
)


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("Ann@Example.ORG", "ann@example.org"),
        ("<ann@example.org.>", "ann@example.org"),
        ("ann+tag@example.org", "ann+tag@example.org"),
        ("ann@xn--bcher-kva.example", "ann@bücher.example"),
        ("ann@BÜCHER.example", "ann@bücher.example"),
        ("A\u0308NN@BU\u0308CHER.example", "änn@bücher.example"),
        # Two domains of two owners, since RFC 5891.
        ("straße.example", "straße.example"),
        ("xn--strae-oqa.example", "straße.example"),
        # Vowels of Thai and of Hindi are marks, no letters.
        ("สมชาย@ตัวอย่าง.example", "สมชาย@ตัวอย่าง.example"),
        ("@xn--p1b6ci4b4b3a.xn--11b5bs3a9aj6g", "उदाहरण.परीक्षा"),
        ("@example.org", "example.org"),
        ("example.org", "example.org"),
        ("*.example.org", ".example.org"),
        (".Example.org", ".example.org"),
        ("List-Id: News <news.example.org>", "list-id:news.example.org"),
        ("2001:db8::/32", "2001:db8::/32"),
        ("2001:DB8::1", "2001:db8::1/128"),
        ("::ffff:192.0.2.7", "192.0.2.7/32"),
        ("fe80::1%eth0", "fe80::1/128"),
        ("192.0.2.0/24", "192.0.2.0/24"),
    ],
)
def test_an_entry_is_compared_in_one_form(text, subject):
    """An entry is stored in lower case with readable domains, and parses to itself."""
    parsed = ListSubject.parse(text)

    assert subject == str(parsed)
    assert parsed == ListSubject.parse(str(parsed))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "spammer",
        "a b@example.org",
        "@",
        "ann@",
        "list-id:",
        "1.2.3",
        "*.org",
        "ann@exam ple.org",
        "a" * 400,
        "ann@example.org\x00",
        "192.0.2.0/33",
        "a@b@c.org",
    ],
)
def test_what_is_no_entry_is_refused_with_what_there_is(text):
    """The error for an invalid entry shows an example of each kind."""
    with pytest.raises(InvalidInput, match=r"is not a list entry.*\(ann@example\.org"):
        ListSubject.parse(text)


def test_a_network_with_host_bits_is_refused_with_both_readings():
    """The author may mean either the network or the address."""
    with pytest.raises(InvalidInput, match=r"write 192\.0\.2\.0/24 .* or 192\.0\.2\.7"):
        ListSubject.parse("192.0.2.7/24")


@given(st.text(max_size=80))
def test_any_text_is_an_entry_or_refused(text):
    """Any text is refused, or is an entry whose written form parses to itself."""
    try:
        parsed = ListSubject.parse(text)
    except InvalidInput:
        return

    assert parsed == ListSubject.parse(str(parsed))


@given(st.binary(max_size=300), st.text(max_size=60), st.text(max_size=40))
def test_any_message_has_identities(raw, sender, client):
    """Any message has identities, and every table can look them up."""
    who = Identities.of(parse(b"From: " + raw), sender=sender, client=client)

    assert found(who, "nobody@example.com") is None


@pytest.mark.parametrize(
    ("headers", "sender", "addresses"),
    [
        (b"From: ann@example.org, Bob <bob@example.net>", "", ("bob@example.net",)),
        (
            b'From: "x <eve@example.com>" <bob@example.net>',
            "",
            ("bob@example.net",),
        ),
        (
            b"From: =?utf-8?q?=3Ceve=40example.com=3E?= <bob@example.net>",
            "",
            ("bob@example.net",),
        ),
        (b"From: bob@example.net (<eve@example.com>)", "", ("bob@example.net",)),
        (b'From: "<eve@example.com>" bob@example.net', "", ("bob@example.net",)),
        (
            b"From: <eve@example.com>, Bob <bob@example.net>",
            "",
            ("eve@example.com", "bob@example.net"),
        ),
        (
            b"From: =?utf-8?q?ann=40example=2Eorg?= <bob@example.net>",
            "<>",
            ("bob@example.net",),
        ),
        (b"From: bob@example.net", "<BOB@Example.net>", ("bob@example.net",)),
        (
            "From: Änn <A\u0308nn@Bücher.example>".encode(),
            "<änn@xn--bcher-kva.example>",
            ("änn@bücher.example",),
        ),
        (
            b"From: =?utf-8?q?=C3=84nn?= <ann@xn--bcher-kva.example>",
            "ann@BU\u0308CHER.example",
            ("ann@bücher.example",),
        ),
        (b"From: nobody", "eve@example.com", ("eve@example.com",)),
        (b"Subject: nothing", "", ()),
    ],
)
def test_the_addresses_are_those_of_from_and_of_the_envelope(
    headers, sender, addresses
):
    """A display name that looks like an address does not count."""
    who = Identities.of(parse(headers + b"\n\nhi"), sender=sender)

    assert addresses == who.addresses


def test_a_list_and_a_client_are_identities():
    """The header List-Id and the address of the client are identities."""
    message = parse(b"List-Id: The News <News.Example.net>\n\nhi")

    assert Identities(lists=("news.example.net",), client="192.0.2.7") == Identities.of(
        message, client="::ffff:192.0.2.7"
    )


def test_a_network_of_mapped_addresses_is_that_of_ipv4():
    """A client that comes by a socket for both families is known by its IPv4 address."""
    assert "192.0.2.0/24" == ListSubject.parse("::ffff:192.0.2.0/120").value
    assert "::/8" == ListSubject.parse("::/8").value


LADDER = (
    "ann@mail.example.org",
    "mail.example.org",
    ".mail.example.org",
    ".example.org",
    "list-id:news.example.net",
    "192.0.2.7",
    "192.0.2.0/24",
    "0.0.0.0/0",
)


@given(st.permutations(LADDER), st.sets(st.sampled_from(LADDER)))
def test_the_most_specific_entry_counts(order, without):
    """Address before domain, the longer one first, then list, then network."""
    there = [each for each in order if each not in without]
    first = next((each for each in LADDER if each in there), None)
    shown = None if first is None else str(ListSubject.parse(first))

    assert shown == found(WHO, *there)


def test_what_is_about_others_does_not_count():
    """An entry for a domain without a leading dot excludes subdomains, and so on."""
    others = ("example.org", "nmail.example.org", ".ail.example.org", "bob@example.org")

    assert found(WHO, *others, "list-id:example.net", "192.0.2.8", "::/0") is None


def test_of_two_senders_the_worse_counts():
    """Adding an allowed address to From does not help a spammer."""
    who = Identities(addresses=("ann@example.org", "eve@example.net"))
    table = ListTable([entry("ann@example.org", -9.0), entry("eve@example.net", 3.0)])

    assert "eve@example.net" == str(table.find(who, NOW).subject)


def test_an_entry_counts_until_it_expires():
    """Once an entry has expired, the next one counts."""
    until = NOW + timedelta(days=30)
    table = ListTable(
        [entry("ann@mail.example.org", expires_at=until), entry("mail.example.org")]
    )
    last = until - timedelta(microseconds=1)

    assert "ann@mail.example.org" == str(table.find(WHO, last).subject)
    assert "mail.example.org" == str(table.find(WHO, until).subject)


@given(
    st.sets(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 32)), max_size=20),
    st.integers(0, 2**32 - 1),
)
def test_the_longest_prefix_counts(networks, client):
    """The longest prefix is found, as by a scan of all networks."""
    texts = {str(ip_network((a, length), strict=False)) for a, length in networks}
    host = ip_address(client)
    holding = [each for each in texts if host in ip_network(each)]
    longest = max(holding, key=lambda x: ip_network(x).prefixlen, default=None)

    assert longest == found(Identities(client=str(host)), *texts)


def test_a_statement_says_who_set_it_and_when():
    """The reason names the author and the date of the entry."""
    said = entry("@example.org").statement()

    assert ("list", "example.org", -5.0) == (said.kind, said.name, said.nats)
    assert "allowed by cli:bob on 2026-03-01: example.org" == said.text
    assert entry("@example.org", 5.0).statement().text.startswith("denied by")


@pytest.mark.parametrize("nats", [0.0, 1001.0, -1001.0, float("nan"), float("inf")])
def test_nats_out_of_range_are_refused(nats):
    """0 has no effect, and more than 1000 must be a mistake."""
    with pytest.raises(InvalidInput, match="nats"):
        entry("example.org", nats)


def test_an_expiry_in_the_past_is_refused():
    """Such an entry would never count."""
    with pytest.raises(InvalidInput, match="which is in the past"):
        entry("example.org", expires_at=NOW)


@pytest.mark.parametrize(
    "expires", ["9999-12-31T23:59:59.999999+00:00", "9999-12-31T23:59:59-12:00"]
)
def test_an_expiry_beyond_the_calendar_is_refused(expires):
    """An expiry that cannot be displayed would hide the other entries as well."""
    with pytest.raises(InvalidInput, match="for no expiry, leave it out"):
        entry("example.org", expires_at=datetime.fromisoformat(expires))
    with pytest.raises(InvalidInput, match="which is in the past"):
        entry(
            "example.org",
            expires_at=datetime.fromisoformat("0001-01-01T00:00:00+12:00"),
        )


@pytest.mark.parametrize("note", ["x" * 201, "two\nlines"])
def test_a_note_is_one_short_line(note):
    """A note is one short line, because tables show it."""
    with pytest.raises(InvalidInput, match="the note of"):
        entry("example.org", note=note)


@given(
    st.sampled_from(LADDER),
    st.floats(0.001, 1000).map(lambda x: float(f"{x:g}")),
    st.sampled_from(["allow", "deny"]),
    st.none() | st.integers(1, 800_000),
    st.text(st.characters(categories=["L", "N", "P", "Zs"]), max_size=20).filter(
        str.isprintable
    ),
)
def test_a_list_is_read_as_it_was_written(text, strength, verb, days, note):
    """A list reads back as it was written, except for author and time."""
    expires = None if days is None else NOW + timedelta(hours=days)
    nats = strength if verb == "deny" else -strength
    written = entry(text, nats, expires_at=expires, note=note)
    (read,) = parse_lists(written.line(), "f", source="ann", now=NOW)

    assert replace(written, source="ann") == read


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("permit ann@example.org", "write 'allow"),
        ("allow", "write 'allow"),
        ("allow ann", "is not a list entry"),
        ("deny 192.0.2.7/24", "an address with a length"),
        ("allow ann@example.org nats=-3", "strength"),
        ("allow ann@example.org nats=x", "a number such as 5, got 'x'"),
        ("allow ann@example.org nats=nan", "strength"),
        ("allow ann@example.org expires=soon", "is not an expiry"),
        ("allow ann@example.org expires=2020-01-01", "which is in the past"),
        ("allow ann@example.org 8", "is not valid"),
        ("allow ann@example.org nats=1 nats=2", "is not valid"),
        ("allow ann@example.org note='x", "quotation mark"),
    ],
)
def test_a_line_that_is_none_is_named_by_its_number(line, sentence):
    """An invalid line is named by its number, and no line of the file counts."""
    with pytest.raises(InvalidInput, match=f"line 3 of friends: .*{sentence}"):
        parse_lists(
            f"# ok\nallow bob@example.org\n{line}\n", "friends", source="x", now=NOW
        )


def test_the_last_line_of_a_subject_counts():
    """If a subject occurs twice, its last line counts, however it is written."""
    text = "allow Ann@example.org\r\ndeny ann@example.org # no more\n"
    (only,) = parse_lists(text, "f", source="x", now=NOW)

    assert 5.0 == only.nats


def test_there_are_not_too_many():
    """The entries are limited, because each takes memory in every process."""
    require_few(MAX_ENTRIES)
    with pytest.raises(InvalidInput, match="100,000 entries at most"):
        require_few(MAX_ENTRIES + 1)


@pytest.mark.parametrize("text", ["", "soon", "9" * 7, "2026-13-01"])
def test_what_is_no_expiry_is_refused(text):
    """A text that is not an expiry is refused, and so is a time beyond the calendar."""
    with pytest.raises(InvalidInput, match="is not an expiry"):
        expiry_of(text, NOW)
