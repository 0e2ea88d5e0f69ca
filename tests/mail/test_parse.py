"""Parsing of mail as it arrives."""

from __future__ import annotations

import base64
import binascii
import importlib
from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.mail.limits import MAX_EVENT_CHARS, MAX_HTML_CHARS, MAX_TEXT_CHARS
from app.mail.message import Header, Message
from app.mail.parse import parse

TWO_PARTS = b"""\
From: Ann <ann@example.org>
Subject: Minutes
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="cut here"

This is the preamble.
--cut here

The text.
--cut here
Content-Type: application/pdf; name="minutes.pdf"
Content-Disposition: attachment; filename*=utf-8''minutes%20%C3%A9.pdf
Content-Transfer-Encoding: base64

JVBERi0xLjQK
--cut here--
"""

# Pieces that mail is made of, so that random messages are not only noise.
PIECES = st.sampled_from(
    [
        b"From: a@example.org\n",
        b"From someone Mon Jan  1 00:00:00 2024\n",
        b"Subject: =?utf-8?q?caf=C3=A9?= =?iso-2022-jp?b?GyRC?=\n",
        b"Content-Type: multipart/mixed; boundary=b\n",
        b'Content-Type: multipart/alternative; boundary="b"\n',
        b"Content-Type: message/rfc822\n",
        b"Content-Type: message/delivery-status\n",
        b"Content-Type: multipart/digest; boundary=b\n",
        b"Content-Type: text/html; charset=utf-7\n",
        b"Content-Type: text/html\n",
        b"Content-Transfer-Encoding: base64\n",
        b"Content-Transfer-Encoding: quoted-printable\n",
        b"Content-Transfer-Encoding: x-uuencode\n",
        b"Content-Transfer-Encoding: \xd4uoted-printable\n",
        b"Content-Disposition: \xe1ttachment; filename=\xff\n",
        b"Content-Type: text/pl\xe4in; charset=\xff\n",
        b"Content-Disposition: attachment; filename*0*=''x%; filename*1=\"y\n",
        b"http://example.com/\n",
        b"--b\n",
        b"--b--\n",
        b"\n",
        b"\r",
        b"\0",
        b"<a href='http://example.com'>x</a><!-- ",
        b"begin 644 x\n#0V%T\n`\nend\n",
        b"=\n",
        b"\xff\xfe",
    ]
)
MAIL = st.lists(st.one_of(PIECES, st.binary(max_size=40)), max_size=30).map(b"".join)


def texts(message: Message) -> list[tuple[str, str]]:
    """Return the texts with their places, blanks collapsed."""
    return [(text.place, " ".join(text.content.split())) for text in message.texts]


@given(MAIL)
def test_any_bytes_are_a_message(raw):
    """Parsing is total."""
    message = parse(raw)

    assert isinstance(message, Message)
    assert sorted(set(message.defects)) == list(message.defects)


@given(MAIL)
def test_whatever_a_message_says_can_be_written(raw):
    """No string has a lone surrogate, so all of them can be encoded."""
    message = parse(raw)
    said = [
        *message.headers,
        *message.texts,
        *message.links,
        *message.parts,
    ]

    for one in said:
        for value in astuple(one):
            assert isinstance(str(value).encode(), bytes)


@given(MAIL)
def test_parsing_is_a_function_of_the_bytes(raw):
    """The same bytes always give the same Message."""
    assert parse(raw) == parse(raw)


def test_every_prefix_of_a_message_is_a_message():
    """A message cut anywhere is parsed, and keeps the header read so far."""
    for length in range(len(TWO_PARTS) + 1):
        message = parse(TWO_PARTS[:length])

        assert isinstance(message, Message)
        if length > TWO_PARTS.index(b"Subject"):
            assert "Ann <ann@example.org>" == message.header("from")


def test_parts_of_a_multipart_are_found():
    """Texts, attachments and containers come in their order."""
    message = parse(TWO_PARTS)

    assert [("plain", "The text.")] == texts(message)
    assert ("multipart/mixed",) == message.containers
    assert ("text/plain", "application/pdf") == tuple(
        p.media_type for p in message.parts
    )
    assert ["minutes é.pdf"] == [p.filename for p in message.attachments]
    assert 9 == message.attachments[0].size
    assert () == message.defects


@pytest.mark.parametrize("ending", [b"\r\n", b"\r", b"\n"])
def test_line_ends_make_no_difference(ending):
    """CRLF, CR and LF are the same line end."""
    assert parse(TWO_PARTS) == parse(TWO_PARTS.replace(b"\n", ending))


def test_a_mixture_of_line_ends_is_understood():
    """A header may end its lines otherwise than the body."""
    message = parse(b"Subject: a\r\nFrom: b\rTo: c\n\r\nbody\r")

    assert ["a", "b", "c"] == [header.value for header in message.headers]
    assert [("plain", "body")] == texts(message)


@pytest.mark.parametrize(
    "line",
    [b"From ann Mon Jan  1 10:00:00 2024\n", b">From ann Mon Jan  1 10:00:00 2024\n"],
)
def test_the_line_of_an_mbox_is_no_part_of_the_message(line):
    """An mbox entry is the message after its From line."""
    assert parse(TWO_PARTS) == parse(line + TWO_PARTS)


def test_a_text_that_begins_with_from_is_a_text():
    """Only a line with a time in it is that of an mbox."""
    text = b"From my point of view this is fine.\n"

    assert [("plain", text.decode().strip())] == texts(parse(text))


def test_text_directly_below_the_header_is_the_body():
    """A header that runs into other lines ends there, and nothing is lost."""
    message = parse(b"Subject: meeting\nsee you at ten , room 3\nbob\n")

    assert (Header("subject", "meeting"),) == message.headers
    assert [("plain", "see you at ten , room 3 bob")] == texts(message)
    assert ("header-without-end",) == message.defects


def test_an_address_directly_below_the_header_is_the_body():
    """A link looks like a header named http, and is text."""
    message = parse(b"Subject: look\nhttp://example.com/a\nnice\n")

    assert ("look",) == tuple(h.value for h in message.headers)
    assert [("plain", "http://example.com/a nice")] == texts(message)
    assert "http://example.com/a" == message.links[0].url
    assert ("header-without-end",) == message.defects


@pytest.mark.parametrize(
    "text",
    [
        b"just text\n",
        b"Hello: I have a question\nabout it\n",
        b"Hello: one\n\nTwo\n",
        b"x",
        b" x: y\nz",
    ],
)
def test_text_without_a_header_is_all_body(text):
    """What a contact form sends has no header, even if a line looks like one."""
    message = parse(text)

    assert () == message.headers
    assert text.decode().lstrip("\n") == message.texts[0].content


def test_nothing_is_an_empty_message():
    """No bytes and blank lines hold nothing."""
    assert () == parse(b"").texts
    assert () == parse(b"\r\n\r\n").texts


def test_a_byte_order_mark_before_the_header_is_skipped():
    """Editors on some systems put one before the first header."""
    assert "a" == parse(b"\xef\xbb\xbfSubject: a\n\nb").header("subject")


def test_nul_bytes_are_a_defect_and_no_obstacle():
    """A NUL byte hides nothing behind it."""
    message = parse(b"Subject: a\0b\n\nc\0d")

    assert "ab" == message.header("subject")
    assert "cd" == message.texts[0].content
    assert ("nul-bytes",) == message.defects


def alternatives(*parts):
    """Return a message of alternatives, each with a type and a text."""
    body = "".join(f"--b\nContent-Type: {kind}\n\n{text}\n" for kind, text in parts)
    head = 'MIME-Version: 1.0\nContent-Type: multipart/alternative; boundary="b"\n\n'
    return parse(f"{head}{body}--b--\n".encode())


def container(kind, *ids):
    """Return a message of texts that are their ids."""
    body = "".join(f"--b\nContent-Id: {x}\n\n{x}\n" for x in ids)
    return parse(f"Content-Type: multipart/{kind}; boundary=b\n\n{body}--b--".encode())


PLAIN, RICH = ("text/plain", "plain one"), ("text/html", "<b>rich</b> one")
CALENDAR = ("text/calendar", "SUMMARY:a date")
ATTACHED = ("text/html\nContent-Disposition: attachment", "a file")
RELATED = (
    'multipart/related; boundary="c"',
    "--c\nContent-Type: text/html\n\na picture\n--c--",
)
FILES = (
    'multipart/mixed; boundary="c"',
    "--c\nContent-Type: image/png\n\nx\n--c\nContent-Type: multipart/mixed\n\n--c--",
)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([PLAIN, RICH], [("html", "rich one"), ("alternative", "plain one")]),
        ([RICH, PLAIN], [("html", "rich one"), ("alternative", "plain one")]),
        ([PLAIN, RELATED], [("html", "a picture"), ("alternative", "plain one")]),
        ([PLAIN, CALENDAR], [("plain", "plain one"), ("plain", "a date")]),
        (
            [PLAIN, RICH, CALENDAR],
            [
                ("html", "rich one"),
                ("plain", "a date"),
                ("alternative", "plain one"),
            ],
        ),
        ([PLAIN, ATTACHED], [("plain", "plain one")]),
        ([RICH, ATTACHED], [("html", "rich one")]),
        ([PLAIN, ("text/html", "<p>&nbsp;")], [("html", ""), ("plain", "plain one")]),
        (
            [PLAIN, ("text/html", "<img src=x>")],
            [("html", ""), ("alternative", "plain one")],
        ),
        ([RICH, FILES], [("html", "rich one")]),
        ([CALENDAR], [("plain", "a date")]),
        ([("text/html", "mobile"), RICH], [("html", "rich one")]),
    ],
)
def test_of_alternatives_one_is_shown(parts, expected):
    """The last page, or the last text; plain text instead of it is kept apart.

    A calendar is shown in any case.
    """
    assert expected == texts(alternatives(*parts))


EVENT = b"""\
BEGIN:VCALENDAR\r
BEGIN:VEVENT\r
X-UNKNOWN:minutes of the board\r
SUMMARY;LANGUAGE=en;X="a:b":Cheap pi\r
 lls\r
description:Now\\, 50 %\\nhttp://shop.exam\r
\tple\r
COMMENT-X:agenda\r
END:VEVENT\r
END:VCALENDAR\r
"""


@pytest.mark.parametrize(
    "head",
    [
        "text/calendar; method=REQUEST",
        "TEXT/Calendar\nContent-Disposition: attachment; filename=a.ics",
        "application/ics; name=a.ics\nContent-Disposition: attachment",
    ],
)
def test_of_a_calendar_the_events_are_read_as_people_see_them(head):
    """Spam had them beside the words of ham; other fields would hide such words."""
    text = base64.b64encode(EVENT).decode()
    head = f"{head}\nContent-Transfer-Encoding: base64"
    message = alternatives(PLAIN, (head, text))

    assert [
        ("plain", "plain one"),
        ("plain", "Cheap pills Now, 50 % http://shop.example"),
    ] == texts(message)
    assert ["http://shop.example"] == [link.url for link in message.links]


@pytest.mark.parametrize(
    "kind",
    [
        "text/rtf",
        "text/vcard",
        "text/x-log",
        "text/rfc822-headers",
        "message/delivery-status",
        "message/partial",
        "message/external-body",
        "multipart/mixed; boundary=other",
    ],
)
def test_what_some_programs_show_as_a_file_is_read_if_it_is_all(kind):
    """Beside a text it would hide the words of wanted mail."""
    other = f"Content-Type: {kind}\n\nthe minutes\n".encode()
    head = b"Content-Type: multipart/mixed; boundary=b\n\n--b\n"
    beside = parse(head + other + b"--b\nContent-Type: text/plain\n\noffer\n--b--\n")

    assert [("plain", "offer"), ("alternative", "the minutes")] == texts(beside)
    assert [("plain", "the minutes")] == texts(parse(other))


def test_of_long_events_the_beginning_is_read():
    """Words of wanted mail there, which few programs show, would let spam pass."""
    event = f"SUMMARY:lunch\nDESCRIPTION:{'minutes ' * 1_000}\n".encode()
    message = parse(b"Content-Type: text/calendar\n\n" + event)

    assert MAX_EVENT_CHARS == len(message.texts[0].content)
    assert ("events-too-long",) == message.defects


def test_of_a_calendar_without_events_nothing_is_read():
    """Mail programs show none of its fields."""
    calendar = b"BEGIN:VCALENDAR\nX-UNKNOWN:the minutes\nEND:VCALENDAR\n"

    assert [] == texts(parse(b"Content-Type: text/calendar\n\n" + calendar))


@pytest.mark.parametrize("more", ["", "; x", " (x)", ", 7bit", " x"])
def test_type_and_transfer_encoding_are_the_first_word(more):
    """Mail programs drop what stands behind it."""
    head = f"Content-Type: TEXT/HTML{more}\nContent-Transfer-Encoding: BASE64{more}\n\n"
    message = parse(head.encode() + base64.b64encode(b"sh<b>own"))

    assert [("html", "shown")] == texts(message)
    assert () == message.defects


@pytest.mark.parametrize("boundary", ['"=?utf-8?q?b?="', '"b  c"', '"\xe9"', "b (c)"])
def test_a_boundary_is_what_it_is(boundary):
    """Read as another one, the parts would be one text in base64."""
    line = boundary.removesuffix(" (c)").strip('"')
    part = base64.b64encode(b"shown").decode()
    raw = f"""Content-Type: multipart/mixed; boundary=a

--a
Content-Type: multipart/mixed; boundary={boundary}

--{line}
Content-Transfer-Encoding: base64

{part}
--{line}--
--a--
"""

    assert [("plain", "shown")] == texts(parse(raw.encode()))


@pytest.mark.parametrize("start", ["", "; start=first", "; start='<none>'"])
def test_what_a_container_shows_is_its_first_part(start):
    """The others are its pictures (RFC 2387)."""
    message = container(f"related{start}", "<first>", "<second>")

    assert [("plain", "<first>"), ("alternative", "<second>")] == texts(message)


def test_a_text_in_the_place_of_a_signature_is_read():
    """Mail programs show all parts if they do not know the protocol of a signature."""
    message = container("signed", "<first>", "<second>")

    assert [("plain", "<first>"), ("plain", "<second>")] == texts(message)


def test_the_first_part_may_be_another_one():
    """The container names its root (RFC 2387 section 3.2)."""
    message = container('related; start="<second>"', "<first>", "<second>")

    assert [("plain", "<second>"), ("alternative", "<first>")] == texts(message)


def test_what_is_not_shown_takes_no_room_and_gives_no_links():
    """Otherwise it would be where spam has the words and links of ham."""
    long = "http://plain.example " + "word " * MAX_TEXT_CHARS
    message = alternatives(
        ("text/plain", long),
        ("text/html", "<i>" + "x" * MAX_HTML_CHARS),
        ("text/html", "<a href=http://shown.example>shown</a>"),
    )

    assert ("html", "shown") == texts(message)[0]
    assert ["http://shown.example"] == [link.url for link in message.links]
    assert "html-too-long" not in message.defects


@pytest.mark.parametrize("kind", ["x-amp-html", "watch-html", "richtext", "enriched"])
def test_a_page_for_other_programs_is_a_page(kind):
    """Its elements are no words."""
    raw = f"Content-Type: text/{kind}\n\n<p class=a>rich <b>one</b>".encode()

    assert [("html", "rich one")] == [(p, t.strip()) for p, t in texts(parse(raw))]


def test_an_attached_message_is_read():
    """Subject and text of a forwarded message are texts of this one."""
    raw = (
        b"Subject: Fwd\nContent-Type: message/rfc822\n\n"
        b"From: x\nSubject: =?utf-8?q?inner=21?=\n\ninner text\n"
    )
    message = parse(raw)

    assert [("attached", "inner!"), ("plain", "inner text")] == texts(message)
    assert ("message/rfc822",) == message.containers
    assert "Fwd" == message.header("subject")


def test_a_wrong_boundary_is_replaced_by_the_one_in_use():
    """Parts are found by the first line that looks like a boundary."""
    message = parse(TWO_PARTS.replace(b'boundary="cut here"', b'boundary="other"'))

    assert [("plain", "The text.")] == texts(message)
    assert 1 == len(message.attachments)
    assert "multipart-without-start" in message.defects


def test_a_multipart_without_any_boundary_is_text():
    """What cannot be taken apart is read as it stands."""
    message = parse(b"Content-Type: multipart/mixed\n\nsome text\n")

    assert [("plain", "some text")] == texts(message)
    assert "multipart-without-boundary" in message.defects


def test_a_missing_last_boundary_is_a_defect():
    """A message cut within a part keeps the part."""
    message = parse(TWO_PARTS[: TWO_PARTS.rindex(b"--cut here--")])

    assert 2 == len(message.parts)
    assert ("multipart-without-end",) == message.defects


def test_attached_text_is_no_text_of_the_message():
    """A file that is offered for saving is not read to the reader."""
    part = b"Content-Disposition: attachment; filename=a.txt\n\nlog\n"
    message = parse(b"Content-Type: multipart/mixed; boundary=b\n\n--b\n%b--b--" % part)

    assert () == message.texts
    assert "a.txt" == message.attachments[0].filename


def test_binary_parts_have_no_text():
    """Only text and broken multiparts are read."""
    message = parse(b"Content-Type: image/gif\n\nGIF89a")

    assert () == message.texts
    assert ("image/gif",) == tuple(p.media_type for p in message.parts)


def test_parts_of_a_digest_are_messages():
    """RFC 2046 section 5.1.5: the default type within is message/rfc822."""
    raw = b"Content-Type: multipart/digest; boundary=b\n\n--b\n\nSubject: one\n\nfirst\n--b--\n"

    assert [("attached", "one"), ("plain", "first")] == texts(parse(raw))


def test_an_invalid_type_is_plain_text():
    """RFC 2045 section 5.2."""
    message = parse(b"Content-Type: text\n\nhello\n")

    assert "text/plain" == message.parts[0].media_type


def test_verdicts_of_other_filters_are_not_seen():
    """They leak labels, so they are no part of the Message."""
    message = parse(b"X-Spam-Status: Yes\nX-Bogosity: Ham\nSubject: a\n\nb")

    assert (Header("subject", "a"),) == message.headers


@pytest.mark.parametrize(
    ("charset", "subject"),
    [("koi8-r", "Привет, как дела"), ("iso-8859-2", "Zażółć gęślą jaźń")],
)
def test_raw_bytes_in_a_header_are_in_the_charset_of_the_body(charset, subject):
    """Programs that do not encode headers use one charset for everything."""
    head = f"Subject: {subject}\nContent-Type: text/plain; charset={charset}"
    message = parse(f"{head}\n\n{subject}".encode(charset))

    assert subject == message.header("subject") == message.texts[0].content
    assert ("header-8bit",) == message.defects


def test_a_wrong_charset_is_a_defect():
    """Text is decoded by what fits, and the lie is recorded."""
    raw = "Content-Type: text/plain; charset=us-ascii\n\nGrüße".encode()

    assert "Grüße" == parse(raw).texts[0].content
    assert ("charset-mismatch",) == parse(raw).defects


def test_links_and_alternative_texts_of_a_page_are_kept():
    """An HTML part yields its text, then its alt texts, and its links."""
    raw = b'Content-Type: text/html\n\n<img src="http://example.com/i.png" alt="Buy"><p>Now'
    message = parse(raw)

    assert [("html", "Now"), ("alt", "Buy")] == texts(message)
    assert [("http://example.com/i.png", "img")] == [
        (k.url, k.element) for k in message.links
    ]


def test_broken_transfer_encoding_is_a_defect():
    """What can be decoded is."""
    body = base64.b64encode(b"hello there")[:-1]
    message = parse(b"Content-Transfer-Encoding: base64\n\n" + body)

    assert "hello there" == message.texts[0].content
    assert ("base64-broken",) == message.defects


def test_all_values_of_a_header_are_kept():
    """A header may come several times."""
    assert ("b", "c") == parse(b"Received: b\nReceived: c\n\n").header_values(
        "received"
    )


@pytest.mark.parametrize("name", ["decode_transfer", "decode_text", "file_kind"])
def test_a_part_that_a_decoder_fails_on_costs_no_more_than_itself(monkeypatch, name):
    """It is listed with its size, a defect is noted, and the others are read."""
    module = importlib.import_module("app.mail.parse")
    real = getattr(module, name)

    def decode(content, *of):
        if b"bad" in content:
            msg = "not of this codec"
            raise binascii.Error(msg)
        return real(content, *of)

    monkeypatch.setattr(module, name, decode)
    bad = b"application/zip" if name == "file_kind" else b"text/plain"
    message = parse(
        b"Subject: a\nContent-Type: multipart/mixed; boundary=b\n\n"
        b"--b\nContent-Type: " + bad + b"\n\nbad\n"
        b"--b\nContent-Type: text/plain\n\ngood\n--b--\n"
    )

    assert ("part-unreadable",) == message.defects
    assert [("plain", "good")] == texts(message)
    assert [(bad.decode(), 4), ("text/plain", 5)] == [
        (part.media_type, part.size) for part in message.parts
    ]


def test_what_is_wrong_in_the_program_is_not_hidden(monkeypatch):
    """A defect of a part is one of its content, never of the code that reads it."""
    monkeypatch.setattr("app.mail.parse.decode_transfer", lambda *_: None)

    with pytest.raises(TypeError):
        parse(b"Subject: a\n\nhello\n")
