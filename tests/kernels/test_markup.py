"""The kernel of markup equals a few expressions, and stays inside its arrays."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from app.kernels import markup

BREAK, FORMATTING, UNSHOWN = (
    "p div td th tr table li ul ol dl dt dd br hr h1 h2 h3 h4 h5 h6 center blockquote "
    "pre form option select input textarea button img title section article header "
    "footer address main nav aside figure figcaption fieldset legend details summary "
    "dialog caption hgroup menu search",
    "a b big code em font i nobr s small strike strong tt u",
    "script style template",
)
names = st.sampled_from(
    f"{BREAK} {FORMATTING} {UNSHOWN} h7 h bi pp blockquotes".split()
)
tags = st.builds(
    "{}{}{}".format,
    st.sampled_from(["<", "</", "< "]),
    st.one_of(names, names.map(str.upper)),
    st.sampled_from([">", "/>", " x=1>", "\n", "\x0b", "é>", "<", "", "\x00"]),
)
comments = st.builds(
    "{}<!--{}-->{}".format,
    st.sampled_from("aZ1é "),
    st.sampled_from(["", "x", "-", "é" * 200, "é" * 201, "x>", "<", "--"]),
    st.sampled_from("aZ1é "),
)
words = st.text(st.sampled_from("ab<>/=-! \t\n\x1cé\U0001f600"), max_size=9)
pages = st.lists(st.one_of(tags, comments, words), max_size=6).map("".join)


def spaced(page):
    """Return what the kernel writes, and its counts."""
    source = np.frombuffer(page.encode(), np.uint8)
    into = np.empty(2 * source.size, np.uint8)
    size, *counts = markup.spaced(source, into)
    return into[:size].tobytes().decode(), counts


def opened(elements):
    """Return the expression of the start tags of some elements."""
    return rf"<(?:{elements.replace(' ', '|')})[ \t\n\f\r/>]"


@given(pages)
def test_tags_are_found_as_expressions_find_them(page):
    """The blanks, the numbers, and what kinds of elements there are."""
    flags = re.IGNORECASE | re.ASCII
    breaks = re.compile(opened(BREAK).replace("<", "<(?=/?", 1) + ")", flags)
    written, (n_tags, attributes, _, links, _, signs, seen) = spaced(page)

    assert breaks.sub(" <", page) == written
    assert page.count("<") == n_tags
    gaps = len(re.findall(r"[^ \t\n\f\r]+", page))
    assert gaps + page.count("/") + page.count("=") == attributes
    assert page.count("<a") + page.count("<A") == links
    assert sum(map(page.count, "\"',:;{}")) == signs
    in_word = re.search("[a-zA-Z]<!--[^<>]{0,200}-->[a-zA-Z]", page)
    assert bool(in_word) == bool(seen & markup.IN_WORD)
    assert bool(breaks.search(page)) == bool(seen & markup.BREAK)


values = st.lists(st.sampled_from(["=", '"', "'", ">", "<", " ", "\x0b", "a"])).map(
    "".join
)


@given(pages | values | values.map("<a b".__add__))
def test_the_attributes_of_a_tag_are_bounded_as_expressions_bound_them(page):
    """The longest tag, however its attributes are written."""
    data = page.encode()
    _, (_, attributes, together, *_) = spaced(page)
    ends = re.findall(rb"""(?==[ \t\n\f\r]*(?:"[^">]*>|'[^'>]*>))""", data)
    tags = data.split(b">") if ends else re.findall(b"<[^>]*", data)
    longest = max(map(len, tags), default=0)

    assert min(attributes, (len(ends) + 1) * longest // 2) == together


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("x<b>y</b>", 1),
        ("<p><b><i>x</i></b></p>", 1 + 2 + 1),
        ("<a href='/?a=b'><img src=x alt='>'><br/>x</a>", 1 + 1 + 1),
        ('<FONT size=2><span style="a:b">x</span></FONT ><p>', 1 + 1 + 1),
        ("<b><p>x</p></b>", 1 + 1 + 1 + 1 + 1),
        ("<b/><b><b></b></b>", 1 + 2 + 3 + 2 + 1),
    ],
)
def test_what_is_closed_at_once_is_not_opened_again(page, expected):
    """It is counted by each tag up to that; what surrounds a block is not so sure."""
    assert expected == spaced(page)[1][4]


FALSE_ENDS = [
    "<b #><select></b></select>",
    "<b # x='</b>'>",
    "<b # x=></b x='</b>'>",
    "<b # x='>' y='</b>'>",
    "<b # =' y='></b>'>",
    "<b # ' x='></b>'>",
    "<b #><i x='</b>'></i>",
    "<b #><!-- </b> -->",
    "<b #><textarea></b></textarea>",
    "<b #></b\x0b>",
    "<b #></b\x1c>",
    "<b #></bb>",
    "<b #></b<",
    "<b<p #>",
    "<p><b #><td><table><td></b></table>",
    "<b #><svg></b></svg>",
    "<b #><div></b></div></div>",
    "<b #><div><div><div><div><div><div><div><div><div></b>" + "</div>" * 9,
]


@pytest.mark.parametrize("unit", FALSE_ENDS)
def test_an_end_that_closes_nothing_is_not_believed(unit):
    """Whatever it is in: the parser opens no more elements than the estimate says."""
    check_elements(unit)


pieces = st.sampled_from(
    [
        *("<b #>", "<b>", "<i>", "</b>", "</i>", "<a x=#>", "</a>", "<font color='#'>"),
        *("</font>", "<br>", "<span>", "</span>", "<p>", "</p>", "<td>", "<table>"),
        *(
            "<select>",
            "</select>",
            "<svg>",
            "<mi>",
            "<template>",
            "<!--",
            "-->",
            "<xmp>",
        ),
        *("</xmp>", "<b x='#", "'>", '"', "=", ">", "<", "/", " ", "x", "</b\x0b>"),
    ]
)


@given(st.lists(pieces, max_size=7).map("".join))
def test_no_more_elements_are_opened_again_than_the_estimate_says(unit):
    """Whatever is repeated, the parser's own tree is the judge."""
    check_elements(f"<b #>{unit}</b>")


def check_elements(unit):
    """Check the elements of the tree of a page that repeats a unit, and then blocks."""
    page = "<p>" + "".join(unit.replace("#", f"a{n}") for n in range(100))
    page += "<p>x" * 300
    written, (n_tags, *_, reopened, _, _) = spaced(page)
    elements = len(LexborHTMLParser(written).root.css("*"))
    # An end tag that moves the elements after it copies up to four of them, eight times.
    copies = 32 * len(re.findall(rf"</(?:{FORMATTING.replace(' ', '|')})", page))

    assert 5 + n_tags + 2 * reopened + copies >= elements


@pytest.mark.parametrize("name", UNSHOWN.split())
@pytest.mark.parametrize("end", [">", " x>", "/>", "<p>"])
def test_elements_without_text_are_seen(name, end):
    """With whatever ends their name, a blank before the next tag too."""
    assert spaced(f"a<{name.upper()}{end}b")[1][-1] & markup.UNSHOWN
    assert not spaced(f"a<{name}x{end}b")[1][-1] & markup.UNSHOWN


@given(st.binary(max_size=60), st.integers(0, 90))
def test_any_bytes_are_read_inside_the_arrays(data, room):
    """Bytes that are no UTF-8, and a room that is too small."""
    size, *_ = markup.spaced(np.frombuffer(data, np.uint8), np.empty(room, np.uint8))

    assert size <= room
