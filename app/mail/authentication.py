"""Authentication: the sender that the site's own mail servers have verified.

Mail servers write their results for SPF, DKIM and DMARC into fields named
Authentication-Results (RFC 8601).  Anybody can write such a field, so a result counts
only under the name of a server that the caller trusts.

Contract of this file: when in doubt, nobody is verified.  The fields are not decoded:
with words of RFC 2047, a sender could write results into the address that a server
quotes.  Nor is their text: bytes beyond ASCII are letters within a name or an address,
and nowhere else.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from app.mail.headers import normal_domain, normal_local
from app.mail.limits import MAX_HEADERS, MAX_HEADERS_CHARS

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    _Result = tuple[str, Mapping[str, str]]

# A lone CR does not end a line: the mail server would not have removed a field that
# begins after one, inside the value of another field.
_FIELD: Final = re.compile(
    r"^([!-9;-~]++[ \t]*+):([^\n]*+(?>(?:\n[ \t][^\n]*+)*))", re.MULTILINE
)
_END: Final = re.compile(rb"\n\r?\n")
_QUOTED: Final = r'"(?>(?:[^"\\]|\\.)*)"'
# Outside of comments, and within them. Quotes in a comment are text (RFC 5322 section
# 3.2), but a server that copies an address into one may take them for more.
_OUTSIDE: Final = re.compile(rf"(?>(?:\\.|{_QUOTED}|[^\\\"()])*)", re.DOTALL)
_COMMENT: Final = re.compile(r"(?>(?:\\.|[^\\\"()])*)", re.DOTALL)
# An escaped sign outside of quotes begins none, as in `_OUTSIDE`: without it, each \"
# of 60 kB was looked at to the end of the field, which took 4.8 s.
_QUOTE: Final = re.compile(rf"(\\.)|{_QUOTED}", re.DOTALL)
_WORD: Final = re.compile(rf'(?>(?:\\.|{_QUOTED}|[^\s;"\\])+)', re.DOTALL)
_SEGMENT: Final = re.compile(rf'(?>(?:\\.|{_QUOTED}|[^;"\\])*)', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
# RFC 8601 section 2.2 has a MIME token or a quoted string. A name of a host is
# what everybody writes, and needs no quotes.
_SERVER: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9])?")
_END_OF_NAME: Final = re.compile(r"[\s;]")
_LABEL: Final = "[a-z0-9_\u0080-\U0010ffff-]{1,63}"
_DOMAIN: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})+")
# Letters of domains that RFC 3490 drops or reads as others ("ss"). A server that still
# follows it has verified the other domain, if it writes them and not the A-label.
_AMBIGUOUS: Final = re.compile("[\u00df\u1e9e\u03c2\u200c\u200d]")
# RFC 5321 section 4.5.3.1: a local part has 64 octets, a domain 255.
_ADDRESS: Final = re.compile(r"[^\s@<>()\[\]\\,;:\"]{1,64}@[^\s@]{1,255}")


@dataclass(frozen=True, slots=True)
class VerifiedSender:
    """The author of a message, as verified by a mail server.

    Parameters
    ----------
    address : str
        The address of From, as `normal_address` returns it.
    organisation : str
        The domain that vouches for it: that of the address, or a parent.
    """

    address: str
    organisation: str

    @property
    def domain(self) -> str:
        """The domain of the address."""
        return self.address.rpartition("@")[2]


def verified_sender(raw: bytes, believed: Container[str]) -> VerifiedSender | None:
    r"""Return the author of a message; None if no trusted result verifies one.

    Parameters
    ----------
    believed : container of str
        Names of the servers whose results count, lower case.

    Notes
    -----
    The author is verified by a `dmarc=pass` for the domain of From, or by a `dkim=pass`
    or `spf=pass` for that domain or a parent, but never if there is a `dmarc=fail`.
    There is no public suffix list, with which a subdomain could vouch for its parent:
    it would go out of date, and the DMARC result already covers this case.

    The fields that count begin with the first one of a trusted server and end with
    the next Received field: anything below was there when the message came in (RFC 8601
    section 5).  Of several fields about DKIM or SPF the topmost counts, and those about
    DMARC have to agree.

    Examples
    --------
    >>> raw = (
    ...     b"Authentication-Results: mx.example.org; dmarc=pass\n"
    ...     b"  header.from=a.example\nFrom: Ann <Ann@A.example>\n\n"
    ... )
    >>> verified_sender(raw, {"mx.example.org"})
    VerifiedSender(address='ann@a.example', organisation='a.example')
    >>> verified_sender(raw, {"mail.example.org"}) is None
    True
    """
    fields = _fields(raw)
    authors = [value for name, value in fields if name.rstrip() == "from"]
    if len(authors) != 1:
        return None
    address = _author(authors[0])
    if address is None:
        return None
    domain = address.rpartition("@")[2]
    vouching = _vouching(_results(fields, believed), domain)
    if not vouching:
        return None
    return VerifiedSender(address, min(vouching, key=len))


def is_server_name(text: str) -> bool:
    """Return whether a server may write results under a name.

    Examples
    --------
    >>> is_server_name("mx.example.org"), is_server_name("mx example")
    (True, False)
    """
    return _SERVER.fullmatch(text) is not None


def normal_address(text: str) -> str | None:
    """Return an address in one form, without its brackets; None if it is not one.

    Parameters
    ----------
    text : str
        An address, of text or with the bytes of a header as surrogate escapes.

    Examples
    --------
    >>> normal_address("<Ann@Example.ORG.>"), normal_address("ann"), normal_address("")
    ('ann@example.org', None, None)
    >>> normal_address("JOSÉ@xn--bcher-kva.example")
    'josé@bücher.example'
    """
    text = text.strip().removeprefix("<").removesuffix(">").rstrip(".")
    local, _, given = text.rpartition("@")
    plain, domain = _text(local), _domain(given)
    if plain is None or domain is None or _ADDRESS.fullmatch(text) is None:
        return None
    address = f"{normal_local(plain)}@{domain}"
    # A sign such as a wide "@" in the local part looks like one of another address.
    read = unicodedata.normalize("NFKC", address)
    return address if address.isprintable() and _ADDRESS.fullmatch(read) else None


def _fields(raw: bytes) -> list[tuple[str, str]]:
    """Return names and values of the header; none if it exceeds a limit.

    The part beyond the limit might name another author.
    """
    head = raw[:MAX_HEADERS_CHARS].lstrip(b"\r\n")
    end = _END.search(head)
    if end is not None:
        head = head[: end.start()]
    elif len(raw) > MAX_HEADERS_CHARS:
        return []
    text = head.decode("ascii", "surrogateescape").replace("\r\n", "\n")
    found = [(name.lower(), value) for name, value in _FIELD.findall(text)]
    return found if len(found) <= MAX_HEADERS else []


def _author(value: str) -> str | None:
    """Return the one address of a From; None if there is any doubt."""
    # Text in quotes or comments is for people.
    plain = _QUOTE.sub(lambda found: found[1] or " ", _without_comments(value))
    name, angle, rest = plain.partition("<")
    inner, end, after = rest.partition(">")
    if angle and (not end or after.strip()):
        return None
    # With another @ in the name, programs differ in the author that they show.
    one = plain.count("@") == 1
    return normal_address(inner if angle else name) if one else None


def _results(
    fields: list[tuple[str, str]], believed: Container[str]
) -> dict[str, list[_Result]]:
    """Return the results that count, by method."""
    found: dict[str, list[_Result]] = {}
    begun = False
    for name, value in fields:
        if name == "received" and begun:
            break
        if name != "authentication-results" or _server(value) not in believed:
            continue
        begun = True
        here: dict[str, list[_Result]] = {}
        for method, result, properties in _parsed(value):
            here.setdefault(method, []).append((result, properties))
        for method, given in here.items():
            if method == "dmarc" or method not in found:
                found[method] = found.get(method, []) + given
    return found


def _server(value: str) -> str:
    """Return the name of the server that wrote a field, from the field."""
    # Without comments and quotes: the site's own servers write none there, and the
    # rule that removes forgeries may not handle them.
    return _END_OF_NAME.split(value.lstrip(" \t\n"), maxsplit=1)[0].lower()


def _parsed(value: str) -> Iterator[tuple[str, str, Mapping[str, str]]]:
    """Yield method, result and properties of each result of a field."""
    text = " ".join(_without_comments(value).split())
    text = text.replace(" =", "=").replace("= ", "=")
    _, *segments = _SEGMENT.findall(text)
    for segment in segments:
        pairs = [word.partition("=")[::2] for word in _WORD.findall(segment)]
        if pairs:
            method, result = pairs[0]
            properties = {name.lower(): _unquoted(of) for name, of in pairs[1:]}
            yield method.partition("/")[0].lower(), result.lower(), properties


# Properties of a result that name a domain.
_NAMES: Final = {"dkim": ("header.d", "header.i"), "spf": ("smtp.mailfrom",)}


def _vouching(results: Mapping[str, Sequence[_Result]], domain: str) -> set[str]:
    """Return the verified domains that vouch for a domain: it, and those above."""
    found: set[str] = set()
    dmarc = results.get("dmarc", ())
    if any(result == "fail" for result, _ in dmarc):
        return found
    # If two results differ, one of them may be forged.
    if dmarc and all(
        result == "pass" and _named(properties.get("header.from", "")) == domain
        for result, properties in dmarc
    ):
        found.add(domain)
    for method, names in _NAMES.items():
        for result, properties in results.get(method, ()):
            given = (properties[name] for name in names if name in properties)
            named = _named(next(given, ""))
            vouches = named == domain or domain.endswith(f".{named}")
            if result == "pass" and named is not None and vouches:
                found.add(named)
    return found


def _named(text: str) -> str | None:
    """Return the domain that a result names; None if that is none, or ambiguous."""
    domain = _text(text.rpartition("@")[2]) or ""
    # A mathematical sigma is read as one at the end of a word, too.
    plain = unicodedata.normalize("NFKC", domain)
    return None if _AMBIGUOUS.search(plain) else _domain(domain)


def _domain(text: str) -> str | None:
    """Return the domain of an address, or the domain itself; None if it is neither."""
    given = _text(text.rpartition("@")[2].rstrip("."))
    if given is None or len(given) > 255:  # noqa: PLR2004
        return None
    domain = normal_domain(given)
    return domain if domain.isprintable() and _DOMAIN.fullmatch(domain) else None


def _text(value: str) -> str | None:
    """Return text from which a part of a header is read; None if it is not UTF-8."""
    if value.isascii():
        return value
    try:
        return value.encode("utf-8", "surrogateescape").decode()
    except UnicodeError:
        return None


def _unquoted(text: str) -> str:
    """Return a word without its quotes."""
    if not text.startswith('"'):
        return text
    return _ESCAPED.sub(r"\1", text[1:].removesuffix('"'))


def _without_comments(value: str) -> str:
    """Return a value with a blank for each comment; empty if it is malformed."""
    kept = []
    depth = at = 0
    while at < len(value):
        found = (_COMMENT if depth else _OUTSIDE).match(value, at)
        end = at if found is None else found.end()
        kept.append(" " if depth else value[at:end])
        sign = value[end : end + 1]
        depth += {"(": 1, ")": -1}.get(sign, 0)
        # A quote or a comment that does not end, or one that never began.
        if depth < 0 or sign in {'"', "\\"}:
            return ""
        at = end + 1
    return "" if depth else "".join(kept)
