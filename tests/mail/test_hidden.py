"""Text that no reader sees stands apart from what is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.mail.html import read
from app.mail.limits import MAX_HIDDEN


@pytest.mark.parametrize(
    "opening",
    [
        "<p style='display:none'>",
        "<p style='DISPLAY : NONE !important'>",
        "<p style='color:red;visibility:hidden'>",
        "<p style='opacity:0'>",
        "<p style='opacity: 0.00;'>",
        "<p style='font-size:0'>",
        "<p style='font-size:1px'>",
        "<p style='font-size:0.5px'>",
        "<p style='font:0/0 a'>",
        "<p style='font-size:12px;font-size:0'>",
        "<p style='opacity:.01'>",
        "<p style='text-indent:-9999px'>",
        "<p style='text-indent:-99.9em'>",
        "<p style='position:absolute; left:-9999px'>",
        "<p style='position:absolute; top:-100em'>",
        "<p style='margin-left:-1000px'>",
        "<p style='max-height:0;overflow:hidden'>",
        "<p style='color:transparent'>",
        "<p style='color:rgb(255, 255, 250)'>",
        "<p style='color:rgba(0,0,0,0)'>",
        "<p style='color:whitesmoke'>",
        "<p style='color:white'><i style='background:#fff'>",
        "<p style='font-size:0'><i style='font-size:1em'>",
        "<p style='display:none'><i style='display:inline;font-size:9px'>",
        "<style>.x {display:none}</style><p class='a x'>",
        "<style>#y{font-size:0}</style><p id=y>",
        "<style>p.z, td {color:#fff}</style><p class=z>",
        "<style>i {color:#fff}</style><i>",
        "<style>/* a { */ @import url(b); .x{top:0;display : none !important}</style><p class=x>",
        "<style media=screen>.x{color:red} .x{display:none}</style><p class=x>",
        "<style>.x{display:block}</style><p class=x style='display:none'>",
        "<p hidden>",
        "<font color=white>",
        "<font color='#fff'>",
        "<font color='#fffffe'>",
        "<font color='FDFDFD'>",
        "<span style='color:#ffffff'>",
        "<table bgcolor=black><tr><td><font color='#000000'>",
        "<p style='background:#336699; color:#336699'>",
        "<div style='background-color:black'><b style='color:black'>",
    ],
)
def test_hidden_text_is_taken_out(opening):
    """By style, by size, or in the colour of what is behind it."""
    page = read(f"<body>seen {opening}secret")

    assert ["secret"] == page.hidden.split()
    assert ["seen"] == page.text.split()
    assert ("html-hidden-text",) == page.defects


@pytest.mark.parametrize(
    "opening",
    [
        "<p style='display:block'>",
        "<p style='opacity:0.9'>",
        "<p style='text-indent:-9em'>",
        "<p style='margin-top:-100px'>",
        "<p style='left:-99.9em'>",
        "<p style='font-size:0.9em'>",
        "<p style='font-size:10px'>",
        "<p style='font-size:1.5em'>",
        "<p style='x-display:none'>",
        "<style>@media (max-width:9px) {.x {display:none} .y{top:0}}</style><p class=x>",
        "<style>.x {display:none}</style><p class=x style='display:block'>",
        "<style>.x{font-size:0} .y{font-size:9px}</style><p class=x><b class=y>",
        "<style>.x{background:#00f}</style><p class=x style='color:#fff'>",
        "<style>.x{color:#fff} .a .x{background:#00f}</style><p class=a><b class=x>",
        "<style>.x{color:#fff} @media all{.x{background:#00f}}</style><p class=x>",
        "<style>.a .x, .x:hover, .x > i, a.x {display:none}</style><p class=x>",
        "<style media=print>.x{display:none}</style><p class=x>",
        "<style>} .x {display:none</style><p class=x>",
        "<p style='mso-hide:all'>",
        "<p style='font-size:1em'>",
        "<p style='font-size:100%'>",
        "<p style='font-size:0;font-size:12px'>",
        "<p style='font-size:calc(1px + 1vw)'>",
        "<p style='font-size:0'><b style='font-size:13px'>",
        "<p style='font-size:0'><b style='font:bold 13px/1.5 Arial'>",
        "<p style='font-size:0'><font size=2>",
        "<p style='visibility:hidden'><b style='visibility:visible'>",
        "<p style='color:#fff'><b style='color:#222'>",
        "<p style='color:#fff'><b style='background:rgb(10,20,30)'>",
        "<p style='max-height:0'>",
        "<p style='color:rgba(0,0,0,0.8)'>",
        "<p style='background-color:transparent;color:#111'>",
        "<font color=black>",
        "<font color='#888888'>",
        "<font color=nocolour>",
        "<table bgcolor=black><tr><td><font color=white>",
        "<table background=night.png><tr><td><font color=white>",
        "<p style='background:url(night.png);color:white'>",
        "<body hidden>",
    ],
)
def test_what_may_be_read_is_text(opening):
    """In doubt a text is shown: on an image every colour may be read."""
    page = read(f"{opening}shown")

    assert "" == page.hidden
    assert ["shown"] == page.text.split()
    assert () == page.defects


def test_hidden_within_hidden_is_taken_out_once():
    """The inner element is freed with the outer one."""
    page = read("<p hidden>a<b hidden>b</b><i style='display:none'>c</i></p>d")

    assert ["abc"] == page.hidden.split()
    assert ["d"] == page.text.split()


def test_text_beside_what_an_element_shows_is_hidden():
    """Each text is what its nearest element makes of it; both keep their order."""
    page = read(
        "<p style='font-size:0'>a<b style='font-size:9px'>B<i style='font-size:0'>c</i>"
        "<u>D</u></b>e<i>f</i></p>G"
    )

    assert ["aef", "c"] == page.hidden.split()
    assert "BDG" == "".join(page.text.split())


def test_the_colour_behind_is_found_however_deep_a_text_is():
    """Elements that declare none do not cover it."""
    deep = "<i>" * 100
    page = read(f"<table bgcolor=black><tr><td>{deep}<font color=black>text")

    assert ["text"] == page.hidden.split()


def test_an_empty_hidden_element_is_no_trick():
    """Pages hide much that holds no text."""
    assert () == read("<p hidden><img src=a></p>x").defects


def test_hidden_elements_are_bounded():
    """What is beyond the limit counts as shown."""
    page = read("<b hidden>x </b>" * (MAX_HIDDEN + 3))

    assert MAX_HIDDEN == len(page.hidden.split())
    assert 3 == len(page.text.split())


@pytest.mark.parametrize(
    ("source", "marked"),
    [("V<!-- x -->iagra", True), ("a <!-- x --> b", False), ("<!-- x -->", False)],
)
def test_a_comment_inside_a_word_is_a_defect(source, marked):
    """The word is read as one."""
    assert marked == ("html-comment-in-word" in read(source).defects)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("width=1 height=1", "1x1"),
        ("width=100% height=20", "100%x20"),
        ("width=1", ""),
        ("width=a height=b", ""),
    ],
)
def test_the_size_of_an_image_stands_in_its_link(size, expected):
    """The declared size of an image is part of its link."""
    assert expected == read(f"<img src=a {size}>").links[0].text


@given(
    st.lists(
        st.sampled_from(
            ["<p hidden>", "</p>", "<b style='color:white'>", "</b>", "x", "<td>", "</td>",
             "<table bgcolor=white>", "<font color=#fff>", "</font>", "<div style='display:none'>"]
        ),
        max_size=30,
    )
)  # fmt: skip
def test_any_nesting_keeps_all_text(pieces):
    """Every letter is shown or hidden, and none is both."""
    page = read("".join(pieces))

    assert pieces.count("x") == (page.text + page.hidden).count("x")
