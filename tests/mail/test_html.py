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
def test_a_page_without_a_tree_is_read_too(source):
    """The way around the tree is total as well."""
    page = html.read("<p>" * (MAX_HTML_TAGS + 1) + source)

    assert "html-too-complex" in page.defects
    assert page.text == page.text.encode().decode()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("V<!-- x -->iagra", ["Viagra"]),
        ("V<b>i</b>agra", ["Viagra"]),
        ("<td>a</td><td>b<br>c<p>d<li>e", ["a", "b", "c", "d", "e"]),
        (
            "a<main>b<nav>c</nav>d<figure>e<figcaption>f</figcaption></figure>g</main>h",
            ["a", "b", "c", "d", "e", "f", "g", "h"],
        ),
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
    assert words == shown("<p>" * (MAX_HTML_TAGS + 1) + source)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "<a style='display:block'>a</a><a style='display:block'>b</a>c",
            ["a", "b", "c"],
        ),
        ("<style>.x{display:flex}</style>a<i class=x>b</i>c", ["a", "b", "c"]),
        ("<a style='padding:0 9px'>a</a><a style='padding:0 9px'>b</a>", ["a", "b"]),
        ("<b style='margin-right:.3em'>a:</b><i>b</i>", ["a:", "b"]),
        ("a<b style='padding-left:4px'></b>b", ["a", "b"]),
        # Without a gap, or none to be seen.
        ("V<b style='display:inline-block'>i</b>agra", ["Viagra"]),
        ("V<b style='padding:9px 1px'>i</b>agra", ["Viagra"]),
        ("V<b style='margin:0 -9px'>i</b>agra", ["Viagra"]),
        ("V<b style='display:block;display:inline'>i</b>agra", ["Viagra"]),
    ],
)
def test_styles_part_words(source, words):
    """As minified pages do, which have no blanks between their links."""
    assert words == shown(source)


@pytest.mark.parametrize("direction", ["RTL", "rtl", "ltr"])
def test_text_that_is_shown_from_right_to_left_is_marked(direction):
    """As it is in plain text, so that both are read alike."""
    text = html.read(f"<p>Buy <BDO dir={direction}>wo<b>n</b></BDO>!").text

    assert text.strip() == (
        "Buy won!" if direction == "ltr" else "Buy \u202ewon\u202c!"
    )


def test_links_have_their_element_and_their_text():
    """What is pointed to, by what, and what the reader sees instead."""
    source = (
        '<a href=" http://a.example/x\n y">Bank</a><img src="cid:1" alt="Logo" title="Our logo">'
        '<form action="http://b.example"><table background="c.gif"><a title="only">z</a><a href="">e</a>'
        '<a href="d"> <img width="2" height="1" src="e"></a>'
    )
    page = html.read(source)

    assert [
        ("http://a.example/x y", "a", "Bank"),
        ("cid:1", "img", ""),
        ("http://b.example", "form", ""),
        ("d", "a", ""),
        ("e", "img", "2x1"),
        ("c.gif", "table", ""),
    ] == [(link.url, link.element, link.text) for link in page.links]
    assert ("Logo",) == page.alternatives


@pytest.mark.parametrize(
    "unseen",
    [
        '<a href="b"> </a>',
        '<a href="b"><b></b></a>',
        '<p hidden><a href="b">c</a><img src="b" alt="c">',
        '<img width="1" height="0" src="b" alt="c">',
        '<input type="hidden" src="b" alt="c">',
        '<link href="b">',
        '<base href="b">',
    ],
)
def test_links_that_nobody_sees_are_not_read(unseen):
    """Spam had some hundred, to the hosts that wanted mail has."""
    page = html.read(f'<a href="a">seen</a>{unseen}')

    assert ["a"] == [link.url for link in page.links]
    assert () == page.alternatives


def test_links_are_found_without_a_tree():
    """Attributes that point somewhere are found in any page."""
    page = html.read(
        "<p>" * (MAX_HTML_TAGS + 1) + '<a href="http://a.example">x</a><img src=b.gif>'
    )

    assert ["http://a.example", "b.gif"] == [link.url for link in page.links]


@pytest.mark.parametrize("prefix", ["", "<p>" * (MAX_HTML_TAGS + 1)])
def test_links_are_bounded(prefix):
    """No page has more links than the limit."""
    page = html.read(prefix + "<p background=x href=y>" * (MAX_LINKS + 1))

    assert MAX_LINKS == len(page.links)


def test_a_page_that_the_parser_gives_up_is_read_without_a_tree(monkeypatch):
    """Its text and links are read from the tags as they stand."""

    def give_up(_):
        raise SelectolaxError

    monkeypatch.setattr(html, "LexborHTMLParser", give_up)
    page = html.read("<p>See <a href='http://a.example'>here</a>")

    assert ["See", "here"] == page.text.split()
    assert ["http://a.example"] == [link.url for link in page.links]
    assert ("html-unreadable",) == page.defects


@pytest.mark.parametrize("element", ["iframe", "noframes", "noembed"])
@pytest.mark.parametrize("before", ["", "<p>" * (MAX_HTML_TAGS + 1)])
def test_what_no_program_shows_is_not_read(element, before):
    """It stands in for what every program shows instead."""
    page = html.read(f"{before}<{element}>secret</{element}>seen")

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


EMPTY = "<b></b>" * (MAX_HTML_TAGS + 1)
"""More tags than one tree has."""


def test_titles_inside_titles_are_read_as_text():
    """Formulas may have them; removed one by one, they took a quadratic time."""
    titles = "<math>" + "<title>" * 1_000
    page = html.read(f"{titles}{'word ' * MAX_TITLE_CHARS}<mi>")

    assert MAX_TITLE_CHARS == len(page.text.split())
    assert "" == page.hidden.strip()


@pytest.mark.parametrize(
    ("page", "text", "hidden"),
    [
        (f"{EMPTY}buy", ["buy"], []),
        (f"{EMPTY}<p hidden>lunch</p>buy", ["buy"], ["lunch"]),
        (f"<div hidden>{EMPTY}lunch</div>buy", ["buy"], ["lunch"]),
        (
            f"<style>.x {{display:none}}</style>{EMPTY}<p class=x>lunch</p>buy",
            ["buy"],
            ["lunch"],
        ),
        (f"<table><tr><td hidden>{EMPTY}lunch</td><td>buy", ["buy"], ["lunch"]),
        (f"<!--{EMPTY}lunch-->buy", ["buy"], []),
        (f"a{'<i>' * 9}<!-- {EMPTY}lunch -->buy", ["abuy"], []),
        (f"<a title='{EMPTY}lunch'>buy</a>", ["buy"], []),
    ],
)
def test_tags_before_a_text_do_not_hide_it_or_show_what_is_hidden(page, text, hidden):
    """A page of more than one tree is read piece by piece."""
    found = html.read(page)

    assert "html-too-complex" in found.defects
    assert (text, hidden) == (found.text.split(), found.hidden.split())
