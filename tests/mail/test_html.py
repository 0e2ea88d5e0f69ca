"""A page is what its reader sees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import SelectolaxError

from app.mail import html
from app.mail.limits import MAX_HTML_TAGS, MAX_LINKS, MAX_TITLE_CHARS

MARKUP = st.lists(
    st.sampled_from(
        [
            "<p>",
            "<td>",
            "<a href='x'>",
            "</a>",
            "<!--",
            "-->",
            "<script>",
            "</script>",
            "<b",
            ">",
            "&amp;",
            "&#0;",
            "word ",
            "\0",
            "<img alt=a src=b>",
            "<title>",
            "<iframe>",
            "</iframe>",
            "<noframes>",
            "<svg>",
            "<math>",
            "<template>",
            "<table>",
            "<frameset>",
        ]
    ),
    max_size=30,
).map("".join)


def shown(source: str) -> list[str]:
    """Return the words that the reader sees."""
    return html.read(source).text.split()


@given(MARKUP | st.text(max_size=50))
def test_any_text_is_a_page(source):
    """Reading HTML is total."""
    page = html.read(source)

    assert page.text == page.text.encode().decode()


@given(MARKUP)
def test_of_a_page_that_is_too_complex_the_beginning_is_read(source):
    """As much as is no work of minutes, whatever it ends in."""
    page = html.read(f"first <p>{source}" + "<p>last" * (MAX_HTML_TAGS + 1))

    assert ("html-too-complex",) == tuple(x for x in page.defects if "complex" in x)
    assert page.text.startswith("first")
    assert page.text.count("last") <= MAX_HTML_TAGS // 2


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("V<!-- x -->iagra", ["Viagra"]),
        ("V<b>i</b>agra", ["Viagra"]),
        ("<td>a</td><td>b<br>c<p>d<li>e", ["a", "b", "c", "d", "e"]),
        ("<style>p {}</style><script>x()</script>seen", ["seen"]),
        ("<title>Offer</title><p>now", ["Offer", "now"]),
        ("x<noscript><p>seen</noscript>", ["x", "seen"]),
        ("<!-->a<!--->b<!-- x --!>c", ["abc"]),
        ("<style-x>a<iframes>b", ["ab"]),
        ("<style></style-x>y</style >a", ["a"]),
        ("<b title='<style>'>a<b title='<!--' lang=\">\">b", ["ab"]),
        ("caf&eacute; &lt;b&gt;", ["café", "<b>"]),
        ("no markup", ["no", "markup"]),
        ("a\0b", ["ab"]),
        ("", []),
    ],
)
def test_text_is_what_the_reader_sees(source, words):
    """Inline markup and comments do not part words, blocks do."""
    assert words == shown(source)


def test_links_have_their_element_and_their_text():
    """What is pointed to, by what, and what the reader sees instead."""
    source = (
        '<a href=" http://a.example/x\n y">Bank</a><img src="cid:1" alt="Logo" title="Our logo">'
        '<form action="http://b.example"><table background="c.gif"><a title="only">z</a><a href="">e</a>'
    )
    page = html.read(source)

    assert [
        ("http://a.example/x y", "a", "Bank"),
        ("cid:1", "img", ""),
        ("http://b.example", "form", ""),
        ("c.gif", "table", ""),
    ] == [(link.url, link.element, link.text) for link in page.links]
    assert ("Logo", "Our logo", "only") == page.alternatives


def test_links_are_bounded():
    """No page has more links than the limit."""
    page = html.read("<p background=x href=y>" * (MAX_LINKS + 1))

    assert MAX_LINKS == len(page.links)


def test_of_a_page_that_the_parser_gives_up_nothing_is_read(monkeypatch):
    """It is a defect of the page."""

    def give_up(_):
        raise SelectolaxError

    monkeypatch.setattr(html, "LexborHTMLParser", give_up)

    assert html.Page("", defects=("html-unreadable",)) == html.read("<p>See")


@pytest.mark.parametrize("element", ["iframe", "noframes", "noembed"])
def test_what_no_program_shows_is_not_read(element):
    """It stands in for what every program shows instead."""
    page = html.read(f"<{element}>secret</{element}>seen")

    assert ["seen"] == page.text.split()
    assert "" == page.hidden.strip()


def test_titles_that_are_longer_than_people_write_them_are_hidden():
    """No mail program shows them, so they would hold the words of somebody's mail."""
    short = html.read(f"<title>{'a' * (MAX_TITLE_CHARS - 9)}</title>seen")
    long = html.read(f"<title>{'a' * (MAX_TITLE_CHARS - 9)}</title><title>ten words")
    longer = html.read(f"<title>{'secret ' * MAX_TITLE_CHARS}</title>seen")

    assert "a" in short.text
    assert ("", ()) == (short.hidden, short.defects)
    assert "" == long.text.strip()
    assert ["seen"] == longer.text.split()
    assert {"secret"} == {*longer.hidden.split()}
    assert ("html-hidden-text",) == longer.defects
