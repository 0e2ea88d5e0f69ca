"""Text that no reader sees stands apart from what is read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from app.mail.colours import CLEAR, colour_of
from app.mail.html import read
from app.mail.limits import MAX_HTML_ELEMENTS


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
        "<p style='font-size:0'><font color=red>",
        "<p style='font-size:0'><i size=7>",
        "<p style='display:none'><i style='display:inline;font-size:9px'>",
        "<style>.x {display:none}</style><p class='a x'>",
        "<style>#y{font-size:0}</style><p id=y>",
        "<style>p.z, td {color:#fff}</style><p class=z>",
        "<style>i {color:#fff}</style><i>",
        "<style>/* a { */ @import url(b); .x{top:0;display : none !important}</style><p class=x>",
        "<style media=screen>.x{color:red} .x{display:none}</style><p class=x>",
        "<svg><style>.x{display:none}<b></b></style></svg><p class=x>",
        "<style>.x{display:block}</style><p class=x style='display:none'>",
        "<p hidden>",
        # Only what is understood prevails, as in the cascade of a browser.
        "<p style='display:none;display:nothing;opacity:0;opacity:1x'>",
        "<p style='font-size:0;font-size:x'>",
        "<p style='height:0;overflow:hidden;height:x'>",
        "<p style='display:none!important;display:block'>",
        "<p style='display/**/:/* : ; */none'>",
        "<p style='displ\\61y:none'>",
        f"<p style='{'a:b;' * 1_000}display:none'>",
        "<p style='opacity:1%'>",
        "<p style='opacity:.3'><b style='opacity:.3'><i style='opacity:.3'>",
        "<p style='font-size:.1mm'>",
        "<p style='font-size:50%'><b style='font-size:.3em'><i style='font-size:1ex'>",
        "<p style='font:400 0 Arial'>",
        "<p style='overflow:clip;height:0.1in;max-height:0'>",
        "<div style='height:1px;overflow:auto'>",
        "<div style='max-height:0;overflow-y:scroll'>",
        "<p style='margin:0 0 0 -2000px'>",
        "<p style='position:absolute;left:-200vw'>",
        "<p style='clip-path:inset(50%)'>",
        "<p style='transform:scale(0)'>",
        "<p style='transform:scale(.01)'>",
        "<p style='transform:rotateX(90deg)'>",
        "<p style='color:#ffff'>",
        "<p style='color:#0000'>",
        "<p style='color:rgb(100%,100%,100%)'>",
        "<p style='color:hsl(0 0% 100%)'>",
        "<p style='color:rgba(0,0,0,1%)'>",
        "<p style='-webkit-text-fill-color:transparent'>",
        "<style>.x{display:none}</style><p class='a b c d e f g h i j k x'>",
        "<style>.x{display:none}</style><p class=x style='opacity:1'>",
        "<style>.x{opacity:0}</style><p class=x style='display:block'>",
        "<style>.x{overflow:hidden}</style><p class=x style='height:0'>",
        "<style>P.X{display:none}</style><p class=x>",
        "<style>em{display:none}</style><em>",
        "<style>*{display:none}</style><p>",
        "<style><!-- .x{display:none} --></style><p class=x>",
        "<style>.y{font-family:'{'} .x{display:none}</style><p class=x>",
        "<style>@media screen{.x{display:none}}</style><p class=x>",
        "<style media=' ALL'>.x{display:none}</style><p class=x>",
        "<style>@media (min-width:1px){.x{display:none}}</style><p class=x>",
        "<style media='(min-width:1px)'>.x{display:none}</style><p class=x>",
        "<style media='a{}'>.x{display:block}</style><p class=x hidden>",
        "<style>@media only screen and (min-width: 299px){.x{display:none}}</style><p class=x>",
        # What shows it elsewhere: on paper, on a telephone, under a pointer.
        "<style>.x{top:-9in;position:fixed} @media print{.x{top:0}}</style><p class=x>",
        "<style>.x{display:none} @media screen and (max-width:600px), (max-width:9px)"
        "{.x{display:block!important}}</style><p class=x>",
        "<style>.x{color:#fff} @media (prefers-color-scheme:dark){.x{color:red}}</style>"
        "<p class=x>",
        "<style>.x{opacity:0} .x:hover{opacity:1} @font-face{opacity:1}</style><p class=x>",
        "<style>.x{display:none} a[x-y]{display:inline!important}</style><p class=x>",
        "<style>.x{font-size:0} [class]{font-size:1px;padding:9px}</style><p class=x>",
        f"<style>{'.a{color:red}' * 1_000} .x{{display:none}}</style><p class=x>",
        "<div style='margin-left:-500px'><p style='padding:0;margin:0 0 0 -500px'>",
        "<div style='height:0;overflow:hidden;position:relative'><p style='position:absolute'>",
        "<b style='height:0;overflow:hidden;display:inline-block'>",
        "<b style='height:0;overflow:hidden;float:left'>",
        "<b style='width:0;overflow:hidden;position:absolute'>",
        "<p style='clip:rect(0,0,0,0);position:absolute'>",
        "<b style='margin-left:-1000px'>",
        "<style>.x .y{display:none}</style><p class=x><b><i class=y>",
        "<style>.x > i .y{display:none}</style><p class=x><i><b><u class=y>",
        "<style>p.x.y#z{display:none}</style><p class='y x' id=z>",
        "<style>p .x{display:none} .x{display:block}</style><p><b class=x>",
        f"<style>{'.a .b{color:red}' * 1_000} p .x{{display:none}}</style><p><b class=x>",
        "<p style='max-height:0;overflow:auto'>",
        "<p style='position:absolute;inset:-9999px auto auto 0'>",
        "<p style='scale:0'>",
        "<p style='translate:-9999px 0'>",
        "<p style='color:white;color:#ggg;color: !important'>",
        "<p style='color:white;text-shadow:0 1px 0 #fff'>",
        "<p style='color:white;text-shadow:99px 0 #000'>",
        "<p style='color:white;text-shadow:none;-webkit-text-stroke:0 #000'>",
        "<p style='color:transparent;background:white;background-clip:text'>",
        "<p style='color:transparent;background-clip:text;background:red'>",
        # What mail programs add to a page, or show at night, is about other elements.
        "<style>.x{display:none} u+.a .y, [b] i.x {display:block}</style><p class=x>",
        "<style>.x{color:#fff} @media (prefers-color-scheme:dark){.y{background:#000}}"
        "</style><p class=x>",
        # Values that are computed, or stand for that of what is above.
        "<p style='opacity:calc(1 - 1)'>",
        "<p style='font-size:clamp(0px, min(1px, 2em), 1px)'>",
        "<p style='left:calc(-1 * (100vw + 10px));position:fixed'>",
        "<p style='--a:none;display:var(--a)'>",
        "<p style='color:var(--b, var(--c, #fff))'>",
        "<style>:root{--a:/**/0}</style><p style='font-size:var(--a)'>",
        "<p style='color:light-dark(white, black)'>",
        f"<p style='font-size:{'calc(' * 15}0px{')' * 15}'>",
        f"<p style='opacity:calc(0{' * 1' * 99})'>",
        "<p style='visibility:hidden'><b style='visibility:unset'>",
        "<p style='font-size:0'><b style='font:inherit'>",
        "<p style='font-size:0'><b style='font-size:larger'>",
        "<p style='color:white'><b style='color:revert'>",
        # Colours of CSS 4, and of attributes.
        "<p style='color:oklch(100% 0 0)'>",
        "<p style='color:lab(50% 40 59);background:rgb(191 87 0)'>",
        "<p style='color:color-mix(in srgb, white, #fff)'>",
        "<p style='color:gold;background:#ffd700'>",
        "<p style='color:white;background:linear-gradient(to right, #fff, #fefefe)'>",
        "<font color='#fffffg'>",
        # Other ways to leave nothing of a box.
        "<p style='transform:rotate(3deg) scale(1,0)'>",
        "<p style='-webkit-transform:matrix(1,0,0,1,-999,0)'>",
        "<p style='transform:rotateY(.25turn)'>",
        "<p style='scale:1 1%'>",
        "<p style='rotate:x 90deg'>",
        "<p style='translate:0 -99em'>",
        "<p style='zoom:1%'>",
        "<p style='mask:linear-gradient(#0000,#0000)'>",
        "<p style='letter-spacing:-2em'>",
        "<p style='filter:drop-shadow(0 0 0 red) blur(20px)'>",
        "<p style='clip-path:polygon(0 0, 1px 0)'>",
        "<p style='clip:rect(9px,9px,9px,9px);position:fixed'>",
        "<p style='line-height:0;overflow:hidden'>",
        "<p style='block-size:0;overflow:clip hidden'>",
        "<p style='margin-inline:-9999px 0'>",
        "<p style='position:absolute;right:9999px'>",
        "<p style='margin-left:9999px'>",
        "<p style='display:table-column'>",
        "<div><template shadowrootmode=open><i>a</i></template>",
        # Rules in others, and those that the end of a sheet ends.
        "<style>@media not print{.x{display:none}}</style><p class=x>",
        "<style>body{p{&.x{display:none}}}</style><p class=x>",
        "<style>.x{display:none;b{}}</style><p class=x>",
        "<style>.x{\ufdd0:1;display:none}</style><p class=x>",
        "<style media='all, \ufdd0'>.x{display:none}</style><p class=x>",
        "<style>.a{</style><style>.x{display:none</style><p class=x>",
        "<style>.a :is(b, p):not(.y){display:none}</style><i class=a><p class=x>",
        "<style>.x{color:#fff} .y:first-child{background:red}</style><p class=x>",
        "<style>@media (min-width:9em), print{.x{display:none}}</style><p class=x>",
        "<p style='opacity:0;animation:a 1s forwards'>",
        "<p style='opacity:x;width:calc(1px);overflow:hidden'>",
        "<table bgcolor=pink><tr><td><font color=pink>",
        "<datalist>",
        "<canvas>",
        "<meter>",
        "<progress>",
        "<math><annotation>",
        "<math><semantics><annotation-xml>",
        "<math><mphantom>",
        # Whatever the style; and fields, which hold more than they show.
        "<canvas style='display:block'>",
        "<svg style='display:block'><text>",
        "<select><option>",
        "<select style='display:block' size=9><option>",
        "<textarea style='font-size:9px'>",
        "<object data=a><p>",
        "<marquee height=1>",
        "<dialog>",
        "<div popover>",
        "<details><summary></summary>",
        "<svg><desc>",
        "<div style='font-size:0'><details open>",
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
        # A browser ignores a value of which it does not understand all.
        "<p style='display:none foo'>",
        "<p style='display:none!foo'>",
        "<p style='visibility:hidden foo'>",
        "<p style='opacity:0 foo'>",
        "<p style='font-size:-1px'>",
        "<p style='font-size:0 foo'>",
        "<p style='font-size:1'>",
        "<p style='font:foo 0 a'>",
        "<p style='position:absolute foo;left:-9999px'>",
        "<p style='position:absolute;left:-9999px foo'>",
        "<p style='margin:0 0 0 -9999px 0'>",
        "<p style='text-indent:-9999px hanging'>",
        "<p style='height:-1px;overflow:hidden'>",
        "<p style='height:0;overflow:hidden foo'>",
        "<p style='clip-path:inset(50%) foo'>",
        "<p style='transform:scale(0) foo'>",
        "<b style='display:block foo;height:0;overflow:hidden'>",
        "<p style='color:white foo'>",
        "<p style='color:#333;background:#333 foo'>",
        "<p style='color:#333;background:#333;background:none'>",
        "<table bgcolor=#333><tr><td><p style='color:#333;background:#fff'>",
        # What a keyword or a variable declares.
        "<p style='display:none;display:var(--a)'>",
        "<p style='display:none;display:math'>",
        "<p style='visibility:hidden;visibility:inherit'>",
        "<p style='opacity:0;opacity:initial'>",
        "<p style='font-size:0;font:caption'>",
        "<p style='color:white;color:inherit'>",
        "<p style='color:white;color:initial'>",
        "<font color=white style='color:unset'>",
        # Attributes of other elements, and colours that are not those of a style.
        "<div bgcolor=#333 style='color:#333'>",
        "<table bgcolor=fff><tr><td><font color=white>",
        "<p color=white style='margin:0'>",
        "<font color=fff>",
        "<font color=#ffff>",
        "<font color='rgb(255,255,255)'>",
        "<font color=transparent>",
        # What has colours, or a size, of its own.
        "<p style='color:white'><a href=a>",
        "<p style='color:white'><mark>",
        "<p style='background:#333'><button style='color:#333'>",
        "<p style='text-indent:-9em'>",
        "<p style='margin-top:-100px'>",
        "<p style='position:absolute;left:-49.9em'>",
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
        "<style>@media (min-width:300px){.x{display:none}}</style><p class=x>",
        "<style>.x{display:none}</style><style media='(min-width:9px)'>.x{display:block}"
        "</style><p class=x>",
        "<style>.x{display:none}</style><style media='not print'>@media all{.x{display:block}}"
        "</style><p class=x>",
        "<style media=print>/* { */ } .x{display:none}</style><p class=x>",
        "<style>.a .x, .x:hover, .x > i, a.x {display:none}</style><p class=x>",
        "<style>.x:not(.y){display:none}</style><p class='x y'>",
        "<style>.x{.y &{display:none}} p{i{display:none}}</style><p class=x>",
        "<style>@media (max-width:299px), (prefers-color-scheme:dark){.x{display:none}}"
        "</style><p class=x>",
        "<p style='font-size:calc(1em + 2px)'>",
        "<p style='transform:translate(-50%, -50%) rotate(90deg)'>",
        "<p style='letter-spacing:-1px;zoom:0;filter:drop-shadow(0 0 9px red)'>",
        "<p style='mask:none;clip-path:polygon(0 0, 100% 0, 100% 90%)'>",
        "<p style='height:20px;overflow:hidden'>",
        "<p style='line-height:1;overflow:hidden'>",
        # Rules that are not understood show what they may show.
        "<style>.x{display:none} [class]{display:block}</style><p class=x>",
        "<style>.x{height:0;overflow:hidden} p:not(.b){height:auto}</style><p class=x>",
        "<style>.x{opacity:0} b + p, p:nth-child(1){opacity:1}</style><p class=x>",
        "<style>.x{visibility:hidden} p[class]{visibility:visible}</style><p class=x>",
        "<style>.x{font-size:0} .\\78{font-size:1em}</style><p class=x>",
        "<style>.x{position:fixed;left:-999px} p:first-child{left:9px}</style><p class=x>",
        "<style>.x{color:#fff} [class]{color:#000}</style><p class=x>",
        "<style>.x{display:none} @media not print{.x{display:block}}</style><p class=x>",
        "<style>.x{display:none} @media (min-width:9px){.x{display:block}}</style><p class=x>",
        "<style>.x{display:none} @media (max-width:9999px){.x{display:block}}</style>"
        "<p class=x>",
        "<style>.x{display:none} @supports (top:0){.x{display:block}}</style><p class=x>",
        "<style>[style]{display:block!important}</style><p style='display:none'>",
        "<style media=print>.x{display:none}</style><p class=x>",
        "<svg><style><g>.x{display:none}</g></style></svg><p class=x>",
        "<style>.x > .y{display:none}</style><p class=x><b><i class=y>",
        "<style>p .x{display:none} #z{display:block}</style><p><b class=x id=z>",
        "<style>p .x, p+.x, .x[a], * > .y.z{display:none}</style><b class=x><i class=y>",
        "<style>} .x {display:none</style><p class=x>",
        "<p hidden style='display:block'>",
        "<p style='display:block!important;display:none'>",
        "<p style='font-family:\";display:none\"'>",
        "<p style='background:url(a;display:none;b)'>",
        "<p style='left:-9999px'>",
        # Each is where all around it have moved it, unless it is placed by itself.
        "<p style='text-indent:-9999px;padding-left:9999px'>",
        "<p style='position:relative;left:-999px;margin:0 0 0 999px'>",
        "<div style='margin:-999px 0 0'><b style='display:block;padding:999px 9px 0 calc(1px)'>",
        "<div style='text-indent:-9999px'><b style='display:block;text-indent:0'>",
        "<div style='height:0;overflow:hidden'><b style='position:absolute'>",
        # A ground in the letters, and a shadow or an outline, show a text.
        "<p style='color:transparent;background:linear-gradient(red,blue);"
        "-webkit-background-clip:text'>",
        "<p style='-webkit-text-fill-color:transparent;background:red;background-clip:text'>",
        "<p style='color:#fff;background:#fff;background-clip:text;color:#000'>",
        "<p style='color:white;text-shadow:0 0 4px #000'>",
        "<p style='color:transparent;text-shadow:0 0 0 #000'><b style='color:white'>",
        "<p style='color:white;text-shadow:1px 0 #fff, 0 1px #000'>",
        "<p style='color:white;-webkit-text-stroke:1px #000'>",
        "<style>.x{display:none} u+.a p.x, #y:checked ~ .x{display:block}</style><p class=x>",
        # What is in a line or in a table has the room of its text.
        "<b style='height:0;overflow:hidden'>",
        "<p style='height:0;overflow:hidden;display:inline'>",
        "<table><tr><td style='max-height:0;overflow:hidden'>",
        "<table style='width:0;overflow:hidden'><tr><td>",
        "<b style='text-indent:-9999px'>",
        "<b style='transform:scale(0)'>",
        "<b style='margin-top:-1000px'>",
        "<p style='clip:rect(0,0,0,0)'>",
        "<p style='height:0;overflow:hidden;padding:0 0 40px'>",
        "<p style='width:0;overflow:hidden;padding:calc(9px)'>",
        "<p style='max-height:0;overflow:hidden;min-height:2em'>",
        "<p style='height:0%;overflow:hidden'>",
        "<p style='overflow:hidden;height:0;overflow:visible'>",
        "<p style='font-size:0;font-size:large'>",
        "<p style='font-size:10pt\nmargin-top:0px'>",
        "<p style='color:white;background:darkred'>",
        "<p style='color:white;background:hsl(0,0%,10%)'>",
        "<p style='color:white;background-image:linear-gradient(#000,#222)'>",
        "<p style='color:white;background:none no-repeat #000'>",
        "<p style='color:#fff;-webkit-text-fill-color:#000'>",
        "<style>td{font-size:70%}</style>" + "<table><tr><td>" * 9,
        "<p style='color:nocolour'>",
        "<p style='display:nonexistent'>",
        "<p style='color:rgb(1,2)'>",
        "<style>.b{display:none} .a{display:block}</style><p class='a b'>",
        "<style>#x{display:block} .x{display:none}</style><p id=x class=x>",
        "<style>.x{display:block!important}</style><p class=x style='display:none'>",
        "<details open><summary></summary>",
        "<details><summary>",
        "<dialog open>",
        "<body style='color:white'>",
        "<body text=white>",
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

    assert [] == page.hidden.split()
    assert ["shown"] == page.text.split()
    assert () == page.defects


@pytest.mark.parametrize(
    "opening",
    [
        "<style>.x{display:none} .x:first-child{display:block}</style><p class=x>",
        "<style>.x{display:none} u+.a .x{display:block}</style><p class=x>",
        "<style>p:nth-child(n+1){display:none}</style><p class=x>",
        "<style>@media (min-width:400px){.x{display:none}}</style><p class=x>",
        # Rules that may not hold, or over which others prevail.
        "<style>@layer a{@supports (top:0){.x{display:none}}}</style><p class=x>",
        "<style>.x{display:none} @supports (foo:0){.x{display:block}}</style><p class=x>",
        "<style>.x{display:none} @layer a{.x{display:block}}</style><p class=x>",
        "<style>.x{display:none} @scope (.a){.x{display:block}}</style><p class=x>",
        "<p style='color:white;background:#fff url(a)'>",
        "<td background=a><p style='color:white'>",
        "<p style='color:#e6e6e6'>",
        "<font color=#ddd>",
        "<p style='color:white;background:linear-gradient(#fff, #fff 99%, #000)'>",
        "<p style='color:white;text-shadow:0 0 1px #fff, 0 0 2px #fff'>",
        "<p style='height:20px;overflow:hidden'>",
    ],
)
def test_long_text_in_doubt_is_hidden(opening):
    """As much as many words of wanted mail are, which would let spam pass."""
    words = ["word"] * 400
    page = read(f"<div>seen</div>{opening}{' '.join(words)}")

    assert words == page.hidden.split()
    assert ["seen"] == page.text.split()


def test_long_text_may_be_scrolled_or_stand_on_a_ground_behind_an_image():
    """A box that scrolls has room, and mail programs show the ground without pictures."""
    for opening in (
        "<p style='height:20px;overflow:auto'>",
        "<p style='color:white;background:#003 url(a)'>",
        "<p style='color:#ccc'>",
        "<p style='color:white;background:linear-gradient(#66e, #64a)'>",
        "<style>p:empty, p:hover, img.a + p{display:none}</style><p>",
    ):
        page = read(f"{opening}{'word ' * 400}")

        assert [] == page.hidden.split()


@given(
    st.lists(
        st.sampled_from(
            [
                "{",
                "}",
                ";",
                ",",
                ">",
                "&",
                "(",
                ")",
                ":",
                ".x",
                "p",
                ":not(",
                ":is(",
                "@media",
                "@layer",
                "calc(",
                "var(",
                "--a",
                "-1px",
                "*",
                "/",
                "0",
                "display:none",
                "transform:matrix(",
                "color:lab(",
            ]
        )
    )
)
def test_a_style_may_be_anything(pieces):
    """Of a sheet and of an element."""
    text = " ".join(pieces)

    assert "a" in read(f"a<style>{text}</style><p style='{text}'>").text


COMPOUNDS = st.sampled_from(["b", ".x", ".y", "#z", "b.x", ".x.y", "*", "i.y#z"])
TAGS = st.sampled_from(["<b class=x>", "<i class='y x' id=z>", "<b>", "<i class=y>", "</b>", "</i>"])  # fmt: skip


@given(st.lists(TAGS), COMPOUNDS, st.lists(st.tuples(st.sampled_from(" >"), COMPOUNDS)))
def test_selectors_are_matched_as_by_the_parser(tags, first, more):
    """Its own engine is the judge; it takes a power of the depth."""
    selector = first + "".join(f" {sign} {compound}" for sign, compound in more)
    source = "".join(f"{tag}w{number} " for number, tag in enumerate(tags))
    tree = LexborHTMLParser(f"<div>{source}").css_first("body")
    for node in tree.css(f"div {selector}"):
        node.decompose()
    page = read(f"<style>div {selector}{{display:none}}</style><div>{source}")

    assert tree.text().split() == page.text.split()


def test_a_button_has_a_size_and_colours_of_its_own():
    """Only the blank that parts it from what is around it is hidden."""
    page = read("<p style='color:white;font-size:0'><button>shown")

    assert (["shown"], " ") == (page.text.split(), page.hidden)


def test_a_table_has_a_colour_of_its_own_on_old_pages():
    """Without a doctype, its text is that of the page."""
    source = "<div style='color:white;font-size:0'><table><tr><td>text"

    assert ["text"] == read(source).text.split()
    assert ["text"] == read(f"<!DOCTYPE html>{source}").hidden.split()
    assert ["text"] == read(f"<body text=white><a href=b>.</a>{source}").hidden.split()


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


@pytest.mark.parametrize(
    "opening",
    [
        "<body text=white><p style='color:black'>",
        "<body style='color:#fff'><p style='color:black'>",
        "<style>body{font-size:0}</style><p style='font-size:12px'>",
    ],
)
def test_a_page_may_hide_the_text_beside_what_is_shown(opening):
    """Where an element inside says otherwise."""
    page = read(f"{opening}seen</p>secret")

    assert ["secret"] == page.hidden.split()
    assert ["seen"] == page.text.split()


def test_the_colour_behind_is_found_however_deep_a_text_is():
    """Elements that declare none do not cover it."""
    deep = "<i>" * 100
    page = read(f"<table bgcolor=black><tr><td>{deep}<font color=black>text")

    assert ["text"] == page.hidden.split()


def test_an_empty_hidden_element_is_no_trick():
    """Pages hide much that holds no text."""
    assert () == read("<p hidden><img src=a></p>x").defects


def test_many_hidden_elements_do_not_show_the_last_one():
    """A limit on them would be a place to hide behind."""
    page = read("<b hidden></b>" * 1_000 + "<p hidden>secret</p>seen")

    assert ["secret"] == page.hidden.split()
    assert ["seen"] == page.text.split()


def test_a_page_of_copied_elements_is_read_in_part():
    """Elements left open are opened again in each block, faster than they are read."""
    opened = "".join(f"<font color=#0000{n:02x}>" for n in range(100))
    blocks = MAX_HTML_ELEMENTS // 100 + 1
    page = read(f"<p>{opened}" + "<p>x" * blocks + "<p hidden>secret")

    assert {"html-hidden-text", "html-too-complex"} == set(page.defects)
    assert "secret" not in page.text
    assert "secret" in page.hidden


@pytest.mark.parametrize(
    ("source", "marked"),
    [("V<!-- x -->iagra", True), ("a <!-- x --> b", False), ("<!-- x -->", False)],
)
def test_a_comment_inside_a_word_is_a_defect(source, marked):
    """The word is read as one."""
    assert marked == ("html-comment-in-word" in read(source).defects)


@pytest.mark.parametrize(
    ("written", "colour"),
    [
        ("#0f0", (0, 255, 0)),
        ("#0f08", (0, 255, 0)),
        ("#00ff0004", CLEAR),
        ("rgb(300, 0, 10)", (255, 0, 10)),
        ("rgb(-255,-1,+7)", (0, 0, 7)),
        ("rgb(100% 0% 20% / 100%)", (255, 0, 51)),
        ("rgb(0 0 0 / 1%)", CLEAR),
        ("hsl(120, 100%, 50%)", (0, 255, 0)),
        ("hsl(-120deg 300% 50%)", (0, 0, 255)),
        ("hsl(240, 100%, 200%)", (255, 255, 255)),
        ("hsla(0, -9%, 20%, 1)", (51, 51, 51)),
        ("rgb(1, 2)", None),
    ],
)
def test_a_colour_is_that_of_a_browser(written, colour):
    """Numbers end where the screen does."""
    assert colour == colour_of(written)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("width=1 height=20", "1x20"),
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
