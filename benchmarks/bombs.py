"""Bombs: the messages of 4 MB that take the most of the processor, family by family.

    python -m benchmarks.bombs [--only WORDS] [--limit SECONDS]

Prints for each family the CPU time from bytes to verdict and explanation, its ratio
to a plain message of the same size, the stage that takes most, and the defects that
are noted.  A family is the worst known input of one kind; `app.mail.limits` and
`app.features` bound what each of them costs.  The scores are those of a filter that
has learned a few messages.  With ``--limit`` the exit code is 1 if a family takes
longer.
"""

from __future__ import annotations

import argparse
import base64
import io
import sys
import time
import zipfile
from itertools import count, islice
from typing import TYPE_CHECKING, Final

from app.classifier.specification import Specification
from app.evaluation.subject import Subject
from app.features.extract import extract
from app.mail.limits import MAX_BYTES
from app.mail.parse import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EXPLAINED: Final = 10
HEAD: Final = b"From: a@example.org\nTo: b@example.org\nSubject: s\n"
TEXT: Final = HEAD + b"Content-Type: text/plain; charset=utf-8\n\n"
CALENDAR: Final = HEAD + b"Content-Type: text/calendar; charset=utf-8\n\n"
PAGE: Final = HEAD + b"Content-Type: text/html; charset=utf-8\n\n"
MIXED: Final = HEAD + b"Content-Type: multipart/mixed; boundary=b\n\n"
WORDS: Final = b"we meet at noon in the usual place and take the agenda with us "


def _filled(pieces: Iterator[bytes], size: int = MAX_BYTES) -> bytes:
    """Join pieces up to a size."""
    taken = []
    while size > 0:
        taken.append(next(pieces))
        size -= len(taken[-1])
    return b"".join(taken)


def _named(pattern: bytes, size: int = MAX_BYTES) -> bytes:
    """Repeat a piece with a number in it, so that no two are the same."""
    return _filled((pattern.replace(b"#", b"%x" % n) for n in count()), size)


def _again(piece: bytes, size: int = MAX_BYTES) -> bytes:
    return piece * (size // len(piece))


def _parts(content: bytes, kind: bytes = b"text/html") -> bytes:
    """Repeat a part of a multipart."""
    head = b"--b\nContent-Type: " + kind + b"\n\n"
    return MIXED + _again(head + content + b"\n")


def _headers(name: bytes, line: Callable[[], bytes]) -> bytes:
    """Repeat a header of nearly 10,000 bytes."""
    return _filled(name + b": " + line() + b"\n" for _ in count()) + b"\nhello\n"


def _encoded(charset: bytes) -> bytes:
    numbers = count()

    def line() -> bytes:
        word = b"=?" + charset + b"?q?a?= x "
        return _filled(
            (word.replace(b"#", b"%x" % next(numbers)) for _ in count()), 9_900
        )

    return _headers(b"X-A", line)


def _signed(octets: bytes) -> bytes:
    """Return an opaque-signed message (RFC 5652) of indefinite length."""
    head = bytes.fromhex("3080 06092a864886f70d010702 a080 3080 020101 3100")
    return head + bytes.fromhex("3080 06092a864886f70d010701 a080 2480") + octets


def _zip(entries: int) -> bytes:
    """Return an archive of empty files."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(entries):
            archive.writestr(f"{number:x}.a.b.c.d", b"")
    return file.getvalue()


def _zips() -> bytes:
    coded = base64.encodebytes(_zip(200))
    head = b"application/zip\nContent-Transfer-Encoding: base64"
    return _parts(coded, head)


def _attributes(quoted: bytes = b"") -> bytes:
    return _parts(b"<a " + _named(b"a#" + quoted + b" ", 127_000) + b">x")


def _alternating() -> bytes:
    """Return encoded words whose charsets take turns, so that none are joined."""
    names = [b"iso-8859-%d" % n for n in range(1, 10)] + [b"koi8-r", b"big5", b"hz"]
    words = (b"=?" + names[n % len(names)] + b"?q?=E9?= " for n in count())
    return _headers(b"X-A", lambda: _filled(words, 9_900))


def _parameters() -> bytes:
    words = _again(b"=?koi8-r?q?=E9?= =?big5?q?=E9?= ", 1_900)
    return MIXED + _again(
        b'--b\nContent-Type: text/plain; name="' + words + b'"\n'
        b'Content-Disposition: inline; filename="' + words + b'"\n\nx\n'
    )


def _extended() -> bytes:
    pieces = b"".join(b" a*%d*=x'y'%%41;" % n for n in range(150))
    return MIXED + _again(b"--b\nContent-Type: text/plain;" + pieces + b"\n\nx\n")


def _subjects() -> bytes:
    subject = b"Subject: " + _again(b"=?koi8-r?q?=E9?= =?big5?q?=E9?= ", 9_900)
    return _parts(subject + b"\n\nx", b"message/rfc822")


def _nested() -> bytes:
    levels = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (i, i)
        for i in range(29)
    )
    return HEAD + levels + _again(b"\nhello and hello\n")


def _distinct(size: int = MAX_BYTES) -> bytes:
    return _named(b"word# ", size)


def _links() -> bytes:
    path = _named(b"/p#.q#?r#=s# ", 2_000).replace(b" ", b"&")
    return TEXT + _named(b"http://h#.example" + path + b" ")


def _hosts(host: str) -> bytes:
    return _again(f"http://{host}/ ".encode())


def _long_links() -> bytes:
    """Return links around links, all of which show one long text."""
    inner = b"a." * 60_000
    return _parts(b"<a href=http://x.example><table><td>" * 400 + inner)


def _hidden() -> bytes:
    return _parts(b"<div>" * 4_600 + b"<p hidden>" * 200 + b"x")


def _colours() -> bytes:
    return _parts(b"<div style=color:#fff>" * 4_900 + b"x")


FAMILIES: Final[dict[str, Callable[[], bytes]]] = {
    "plain words": lambda: TEXT + _again(WORDS),
    "distinct words": lambda: TEXT + _distinct(),
    "distinct words in 20 parts": lambda: _parts(_distinct(200_000), b"text/plain"),
    "one long word": lambda: TEXT + _again(b"x"),
    "dotted words": lambda: TEXT + _again(b"a.b.c.d "),
    "mixed scripts": lambda: TEXT + _again("p\u0430yp\u0430l ".encode()),
    "Han": lambda: TEXT + _again("漢字仮名交文".encode()),
    "combining marks": lambda: TEXT + _again("a\u0301\u0316\u0316".encode()),
    "long runs of combining marks": lambda: TEXT + _again("\u0344\u0f73".encode()),
    "expanding letters": lambda: TEXT + _again("\ufdfa".encode()),
    "letter by letter": lambda: TEXT + _again(b"V i a g r a . "),
    "random strings": lambda: TEXT + _named(b"xkqzv# "),
    "empty lines": lambda: TEXT + _again(b"\n"),
    "calendar, escapes": lambda: CALENDAR + b"SUMMARY:" + _again(rb"\n"),
    "calendar, fields": lambda: CALENDAR + _again(b"URL:\n"),
    "HTML, attributes": _attributes,
    "HTML, attributes with values": lambda: _attributes(b'=">"'),
    "HTML, attributes after slashes": lambda: _parts(
        b"<a/" + _named(b"a#/", 127_000) + b">x"
    ),
    "HTML, attributes of the body": lambda: _parts(_named(b"<body a#=1>", 64_000)),
    "HTML, nested": lambda: _parts(b"<div>" * 4_900 + b"x"),
    "HTML, nested, one part": lambda: PAGE + _again(b"<div>"),
    "HTML, formatting": lambda: _parts(
        b"<p>" + _named(b"<b a#>", 2_000) + b"<p>x" * 600
    ),
    "HTML, formatting in quotes": lambda: _parts(
        b"<p>" + _named(b"<b a# x='</b>'>", 5_000) + b"<p>x" * 600
    ),
    "HTML, formatting around blocks": lambda: _parts(
        b"<b><i><u><s>" + b"<div>" * 2_000 + b"</b></i></u></s>" * 250
    ),
    "HTML, formatting in colours": lambda: _parts(
        b"<p>" + _named(b"<font color=#>", 2_000) + b"<p>x" * 4_000
    ),
    "HTML, tables and links": _long_links,
    "HTML, hidden": _hidden,
    "HTML, colours": _colours,
    "HTML, colours of many styles": lambda: _parts(
        _named(b"<p style='a:#;color:red'>x", 120_000)
    ),
    "HTML, a long style": lambda: _parts(b"<p style='" + b"top:0;" * 80_000 + b"'>x"),
    "HTML, many rules": lambda: _parts(
        b"<style>" + _named(b".a#{top:0}", 480_000) + b"</style>x"
    ),
    "HTML, style sheets": lambda: _parts(
        b"<style>@media " + b"a," * 15_000 + b"{" + b"{}" * 15_000 + b"</style>x"
    ),
    "HTML, rules for all": lambda: _parts(
        b"<style>" + _named(b".a#{color:red}", 9_000) + b"</style>"
        b"<p class='a1 a2 a3 a4 a5 a6 a7 a8 a9' id=a>" * 2_200
    ),
    "HTML, rules for all pieces": lambda: (
        PAGE
        + (b"<style>" + _named(b".a#{color:red}", 60_000) + b"</style>")
        + _again(b"<b></b>")
    ),
    "HTML, selectors": lambda: (
        PAGE
        + (b"<style>" + _named(b".b# .a{color:red}", 60_000) + b"</style>")
        + _again(b"<b class=a>x</b>")
    ),
    "HTML, selectors in one another": lambda: (
        PAGE
        + (
            b"<style>"
            + _named(b".b# > .a > .a .a .a .a{color:red}", 60_000)
            + b"</style>"
        )
        + _again(b"<div class=a>")
    ),
    "HTML, rules in one another": lambda: PAGE + b"<style>" + _again(b".a{"),
    "HTML, variables of variables": lambda: (
        PAGE
        + b"<p style='--a:var(--b)var(--b);--b:var(--a)var(--a);"
        + _again(b"top:var(--a);")
    ),
    "HTML, rules in doubt": lambda: _parts(
        b"<style>"
        + _named(b".b:first-child{display:block}", 9_000)
        + _named(b".a#:first-child{top:0}", 30_000)
        + b"</style>"
        + b"<p class='a b'>x" * 2_500
    ),
    "HTML, styles in styles": lambda: PAGE + _again(b"<svg><style>a{}"),
    "HTML, titles in titles": lambda: PAGE + _again(b"<math><title>"),
    "HTML, comments": lambda: PAGE + _again(b"a<!-- x -->b "),
    "HTML, open comments": lambda: PAGE + _again(b"<!--"),
    "HTML, comments in parts": lambda: _parts(b"a<!-- x -->b" * 1_000),
    "HTML, entities": lambda: _parts(b"&amp;&#x41;&notit;" * 5_000),
    "HTML, entities, one part": lambda: PAGE + _again(b"&lt"),
    "HTML, scripts": lambda: PAGE + _again(b"<script>"),
    "HTML, styles in parts": lambda: _parts(b"<style>a{}</style>" * 2_000),
    "HTML, images": lambda: _parts(b"<img src=x alt=y width=1 height=1>" * 3_000),
    "HTML, links in links": lambda: PAGE + _again(b"<a href=x><table><td>"),
    "HTML, without tags": lambda: _parts(WORDS * 2_000),
    "links": _links,
    "links of combining marks": lambda: TEXT + _hosts("\u0344\u0f73" * 400),
    "links of expanding letters": lambda: TEXT + _hosts("\ufdfa" * 650),
    "links of punycode": lambda: TEXT + _named(b"http://xn--#-kva.xn--#-jva.example/ "),
    "addresses of numbers": lambda: TEXT + _again(b"http://0x1.0x2.0x3.0x4:80/%41 "),
    "encoded words, unknown charsets": lambda: _encoded(b"u#"),
    "encoded words, one charset": lambda: _encoded(b"koi8-r"),
    "encoded words, known charsets": _alternating,
    "encoded words in parameters": _parameters,
    "encoded words in attached subjects": _subjects,
    "parameters in pieces": _extended,
    "charsets, undeclared": lambda: _parts(b"\xe9\xe8 \xc3(" * 1_500, b"text/plain"),
    "charsets, unknown": lambda: (
        MIXED + _named(b"--b\nContent-Type: text/plain; charset=x#\n\n\xe9\n")
    ),
    "charsets, 8-bit headers": lambda: _headers(
        b"X-A", lambda: b"\xe9\xe8 \xc3(" * 1_900
    ),
    "charsets, stateful": lambda: _parts(
        b"+2AA-" * 20_000, b"text/plain; charset=utf-7"
    ),
    "headers, short": lambda: _named(b"X-#: y\n") + b"\nhello\n",
    "headers, words": lambda: _headers(
        b"Subject", lambda: b" ".join([b"w%x" % n for n in range(1_500)])
    ),
    "headers, recipients": lambda: _headers(
        b"To", lambda: b", ".join([b"a%x@b%x.example" % (n, n) for n in range(400)])
    ),
    "headers, hops": lambda: _headers(
        b"Received", lambda: b"from a.example ([1.2.3.4]) by b.c.example " * 220
    ),
    "headers of parts": lambda: (
        MIXED + _again(b"--b\n" + _named(b"Content-#:\n", 15_000) + b"\nx\n")
    ),
    "base64, one part": lambda: (
        HEAD
        + b"Content-Transfer-Encoding: base64\n\n"
        + base64.encodebytes(_distinct(3_000_000))
    ),
    "base64, paddings": lambda: (
        HEAD + b"Content-Transfer-Encoding: base64\n\n" + _again(b"QQ=")
    ),
    "signed, content in pieces": lambda: (
        HEAD
        + b"Content-Type: application/pkcs7-mime\n"
        + b"Content-Transfer-Encoding: base64\n\n"
        + base64.encodebytes(_signed(_again(b"\4\1w\4\1 ", 3_000_000)))
    ),
    "quoted-printable": lambda: (
        HEAD + b"Content-Transfer-Encoding: quoted-printable\n\n" + _again(b"=41=\n")
    ),
    "uuencode": lambda: HEAD + b"\n" + _again(b"begin 644 a\n#0V%T\n`\nend\n"),
    "archives": _zips,
    "empty parts": lambda: MIXED + _again(b"--b\n\n\n"),
    "nested multiparts": _nested,
    "nested messages": lambda: (
        HEAD + b"Content-Type: message/rfc822\n\n" * 40 + _again(WORDS)
    ),
    "delivery reports": lambda: (
        HEAD + b"Content-Type: message/delivery-status\n\n" + _again(b"A: b\n\n")
    ),
    "broken boundary": lambda: (
        MIXED.replace(b"=b\n", b"=c\n")
        + _again(b"--b\nContent-Type: text/plain\n\nx\n")
    ),
    "carriage returns": lambda: TEXT + _again(b"\r\r\n"),
}
"""The worst known message of each kind, by name."""

PLAIN: Final = "plain words"


def taught() -> Subject:
    """Return a filter that has learned a few messages."""
    subject = Subject(Specification())
    for number in range(10):
        for label, word in (("ham", b"minutes"), ("spam", b"watches")):
            raw = HEAD + b"\n" + word + b" and number %d\n" % number
            subject.learn(extract(parse(raw)).views, label)
    return subject


def seconds(raw: bytes, subject: Subject) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the CPU seconds of each stage, and the defects that were noted."""
    moments = [time.process_time()]
    message = parse(raw)
    moments.append(time.process_time())
    observation = extract(message)
    moments.append(time.process_time())
    verdict = subject.score(observation.views)
    moments.append(time.process_time())
    subject.explain(observation.views, verdict, strongest=EXPLAINED)
    moments.append(time.process_time())
    stages = ("parse", "extract", "score", "explain")
    spent = (b - a for a, b in zip(moments, islice(moments, 1, None), strict=False))
    return dict(zip(stages, spent, strict=True)), message.defects


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="families with these words")
    parser.add_argument("--limit", type=float, help="CPU seconds of a family at most")
    parser.add_argument("--size", type=int, default=MAX_BYTES, help="bytes of each")
    asked = parser.parse_args()
    subject = taught()
    message = FAMILIES[PLAIN]()[: asked.size]
    # The first one takes twice as long.
    plain = min(sum(seconds(message, subject)[0].values()) for _ in range(3))
    slow = []
    print(f"{'':36}{'CPU ms':>9}{'x plain':>9}  {'most in':8}defects")
    for name, make in FAMILIES.items():
        if asked.only not in name:
            continue
        spent, defects = seconds(make()[: asked.size], subject)
        total = sum(spent.values())
        most = max(spent, key=spent.__getitem__)
        print(
            f"{name:36}{1000 * total:9.0f}{total / plain:9.1f}  {most:8}"
            f"{' '.join(defects)}",
            flush=True,
        )
        if asked.limit is not None and total > asked.limit:
            slow.append(name)
    if slow:
        sys.exit(f"over the limit: {', '.join(slow)}")


if __name__ == "__main__":
    main()
