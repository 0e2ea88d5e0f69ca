"""One HTML page of the lab: what it draws, and that it loads nothing."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

POINTS = "class,x,y\na,0,0\na,2,0\na,1,3\nb,4,4\nb,6,4\nb,5,7\n"
OVERLAP = "class,x,y\na,0,0\na,2,0\na,1,3\na,4,3\nb,4,4\nb,6,4\nb,5,7\nb,2,2\n"
MAIL = "class,text\nham,do math\nham,buy book\nspam,buy drugs\nspam,buy buy now\n"
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Tags(HTMLParser):
    """The elements of a page; every one of them has to be closed."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attrs):
        """Keep an element, which waits for its end."""
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """Keep an element without contents."""
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        """Compare an end with the element that is open."""
        assert self.open.pop() == tag


@pytest.fixture
def draw(run, tmp_path):
    """Run the lab with `--report`; return the page and its elements."""

    def draw(table, *arguments):
        code, out, err = run(
            table, "--target", "class", *arguments, "--report", "page.html"
        )

        assert (0, "") == (code, err)
        assert "The page is page.html\n" in out
        page = (tmp_path / "page.html").read_text(encoding="utf-8")
        tags = Tags()
        tags.feed(page)

        assert [] == tags.open
        return page, tags.seen

    return draw


def headings(page):
    """Return the headings of the figures."""
    return re.findall(r"<figure><h3>(.*?)</h3>", page)


@pytest.mark.parametrize(
    ("table", "options", "figures"),
    [
        (
            POINTS,
            "--model discriminant --predict x=3,y=3 --folds 3",
            [
                "p(x | class)",
                "p(y | class)",
                "Decision boundary",
                "Weights of the log-odds of b to a",
            ],
        ),
        (OVERLAP, "", ["p(x | class)", "p(y | class)", "Decision boundary"]),
        (
            OVERLAP,
            "--model logistic",
            ["Decision boundary", "Weights of the log-odds of b to a"],
        ),
        (POINTS, "--columns x", ["p(x | class)"]),
        (
            MAIL,
            "--as text=text --alphas 0.1,1,10 --predict text=buy",
            [
                "text: P(a word is this one | class)",
                "Weights of the log-odds of spam to ham",
                "The pseudo-count",
            ],
        ),
        (MAIL, "--as text=text --alphas 1", None),
        ("class,c\na,u\na,v\nb,v\nc,w\n", "", None),
        ("class\na\nb\nb\n", "", []),
        ("class,x,y\na,1,\na,2,\nb,3,\nb,,4\n", "", None),
        ("class,x,y\na,,1\na,,2\nb,3,\nb,4,\n", "", ["p(x | class)", "p(y | class)"]),
    ],
)
def test_the_page_draws_what_there_is_to_draw(draw, table, options, figures):
    """Each figure with its numbers; no script, and nothing from elsewhere."""
    page, tags = draw(table, *options.split())

    assert figures is None or figures == headings(page)
    assert "default-src 'none'" in page
    assert {"script", "link", "img", "iframe"}.isdisjoint(name for name, _ in tags)
    assert not any({"src", "href"} & attributes.keys() for _, attributes in tags)
    assert None is re.search(r"\bnan\b", page)
    assert "<h2>The figures</h2>" in page
    levels = [int(name[1]) for name, _ in tags if re.fullmatch(r"h\d", name)]
    assert all(below <= above + 1 for above, below in pairwise(levels))
    assert "postbayes" in page


def test_the_boundary_is_where_the_model_decides(draw):
    """6 x + 2 y = 24: each stretch of each line of the plane ends there."""
    _, tags = draw(POINTS, "--model", "discriminant")
    areas = [a for name, a in tags if name == "rect" and "area" in a["class"]]
    left = [a for a in areas if a["class"] == "area s0"]
    # From the ends of the axes: 0.15 of the range beyond the values, 58 and 24 pixels.
    per_unit = (560 - 58 - 24) / (6 * 1.3)

    assert 60 <= len(left) <= len(areas)
    for area in left:
        end = float(area["x"]) + float(area["width"])
        x = (end - 58) / per_unit - 0.9
        middle = float(area["y"]) + float(area["height"]) / 2
        y = -1.05 + (420 - 46 - middle) / (420 - 46 - 14) * 7 * 1.3

        assert min((24 - 2 * y) / 6, 6.9) == pytest.approx(x, abs=0.08)


def test_a_tie_has_no_colour(draw):
    """Two classes with the same rows: no place is decided."""
    _, tags = draw("class,x,y\na,0,0\na,2,3\nb,0,0\nb,2,3\n")

    assert not any(n == "rect" and "area" in a["class"] for n, a in tags)


def test_each_area_of_the_plane_has_the_name_of_its_class(draw):
    """No colour is needed: of b, which lies on both sides of a, both areas have it."""
    rows = "".join(f"a,{x},{y}\nb,{9 * x},{y}\n" for x in (-1, 1) for y in (0, 3))
    page, tags = draw("class,x,y\n" + rows)
    names = re.findall(r'<text x="(\S+)" y="(\S+)" class="word middle">(.)<', page)
    areas = [a for name, a in tags if name == "rect" and "area" in a["class"]]

    assert ["a", "b", "b"] == sorted(name for _, _, name in names)
    for x, y, name in names:
        under = [
            a["class"]
            for a in areas
            if 0 <= float(x) - float(a["x"]) <= float(a["width"])
            and 0 <= float(y) - 4 - float(a["y"]) <= float(a["height"])
        ]

        assert [f"area s{'ab'.index(name)}"] == under


def test_the_dots_of_a_class_have_a_shape_of_their_own(draw):
    """The legend shows it; no colour is needed."""
    page, tags = draw("class,x,y\na,0,0\na,2,3\nb,9,0\nb,9,3\nc,5,9\nc,6,9\n")
    plane = page.partition("<h3>Decision boundary</h3>")[2].partition("</figure>")[0]
    legend = plane.partition("</ul>")[0]
    dots = [a for _, a in tags if a.get("class", "").startswith("dot ")]
    shapes = {(a["class"], a.get("d", "").partition("m")[2]) for a in dots}

    assert 9 == len(dots)
    assert 3 == len(shapes) == len({shape for _, shape in shapes})
    assert 3 == legend.count('class="dot ')
    assert 0 == legend.count('class="line ')


def test_weights_are_bars_of_their_length(draw):
    """Largest first; to the right for the class, to the left against it."""
    _, tags = draw(MAIL, "--as", "text=text", "--vocabulary", "buy math")
    bars = [a for name, a in tags if name == "rect" and "bar" in a["class"]]
    weights = bars[-2:]
    # buy: 1 of 2 words of ham and 3 of 3 of spam, smoothed 2/4 and 4/5; math 2/4, 1/5.
    lengths = [float(a["width"]) for a in weights]

    assert ["bar s0", "bar s1"] == [a["class"] for a in weights]
    assert 1.9495 == pytest.approx(lengths[0] / lengths[1], rel=1e-2)


def test_weights_are_of_each_class_to_the_first(draw):
    """With three classes, log-odds alone would be those of one to the other two."""
    page, _ = draw("class,k\na,u\na,v\nb,v\nc,w\n")

    assert [
        f"Weights of the log-odds of {name} to a" for name in ("b", "c")
    ] == headings(page)[-2:]
    assert "to the right for c, to the left for a.</p>" in page


def test_the_page_has_the_prior(draw):
    """All that a prediction takes is there."""
    page, _ = draw(MAIL + "spam,now\n")

    assert "<caption>P(class)</caption>" in page
    assert '<td class="n">3/5 (0.6)</td>' in page


def test_a_diagram_names_what_it_leaves_out(draw):
    """Of 31 words, the diagrams show 30; the tables have all of them."""
    words = [f"w{n}" for n in range(31)]
    table = f"class,text\nham,{' '.join(words)}\nspam,w0\n"
    page, _ = draw(table, "--as", "text=text")

    assert 2 == page.count(" 30 of 31 are shown.</p>")
    assert all(f">{word}</th>" in page for word in words)


def test_a_density_is_not_called_a_probability(draw):
    """It may exceed 1, as here."""
    page, _ = draw("class,x\na,0\na,0.1\nb,2\nb,2.1\n")

    assert "Density in each class: an area below a curve is a probability." in page
    assert "Probability of" not in page


def test_names_are_escaped(draw):
    """A cell is text, whatever it holds."""
    page, _ = draw(
        "class,<b>\n<i>,<script>\n&,u\n",
        "--predict",
        "<b>=<script>",
        "--prior",
        "uniform",
    )

    assert "<script>" not in page
    assert "<i>" not in page
    assert "&lt;script&gt;" in page


def test_a_page_is_written_through_a_link(run, tmp_path):
    """What it leads to is written: /dev/stdout is one, which must stay a device."""
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("before")
    link.symlink_to(target)
    code, _, _ = run(POINTS, "--target", "class", "--report", link)

    assert (0, True) == (code, link.is_symlink())
    assert target.read_text().startswith("<!doctype html>")


def test_a_page_that_cannot_be_written_is_a_sentence(run):
    """With the name of the file."""
    code, _, err = run(POINTS, "--target", "class", "--report", "nowhere/page.html")

    assert 74 == code
    assert "nowhere/page.html cannot be written: No such file or directory\n" in err


def test_a_posterior_of_the_page_is_never_sure_by_rounding(draw):
    """The log-odds are (20 * 20 - 0) / 2 = 200 at one end."""
    page, _ = draw("class,x\na,0\na,2\nb,20\nb,22\n", "--predict", "x=1")

    assert "1 - 1.4e-87" in page
