"""The page: one file that asks for nothing, and says all that it should."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from app.classifier.rule import VerdictRule, terms_of
from app.classifier.specification import Specification, classifiers_of
from app.corpora.source import IndexSource
from app.drawing import number, table
from app.evaluation.experiment import Configuration, Experiment, Folds, Online, Protocol
from app.evaluation.page import named, page
from app.evaluation.run import compare
from tests.support.messages import ham, spam


@pytest.fixture
def index(tmp_path):
    """A stream of sixty messages, in which the last ham looks like spam."""
    folder = tmp_path / "a<b>"
    folder.mkdir()
    lines = []
    for n in range(30):
        for label, raw in (("ham", ham(n)), ("spam", spam(n))):
            (folder / f"{label}{n}").write_bytes(raw)
            lines.append(f"{label} {label}{n}\n")
    (folder / "lost").write_bytes(spam(50).replace(b"free", b"<script>free"))
    (folder / "index").write_text("".join(lines) + "ham lost\n")
    return folder / "index"


def words_only():
    """Return a filter that goes by the words alone."""
    return Specification(
        classifiers=classifiers_of(("words",)),
        verdict=VerdictRule(terms=terms_of(("words",))),
    )


def made(index, *, plan=None, several=False, **given):
    """Return the page of an evaluation."""
    configurations = {"as set": Configuration(Specification(**given))}
    if several:
        configurations["text_views=words"] = Configuration(words_only())
    protocol = Protocol(plan=plan or Online())
    sources = [IndexSource(index=index)]
    runs = Experiment(
        sources=sources, configurations=configurations, protocol=protocol
    ).carry_out(show=lambda *_: lambda _: None)
    return page(
        runs,
        (compare(runs[1:], runs[:1], seed=1),) if several else (),
        command="postbayes evaluate --index 'a<b>/index'",
        protocol=protocol.sentences(),
        reasons=named(sources, runs),
        seed=1,
    )


class Tags(HTMLParser):
    """Checks that elements are closed in the order in which they were opened."""

    EMPTY = frozenset({"meta"})

    def __init__(self):
        super().__init__()
        self.open = []
        self.seen = []

    def handle_starttag(self, tag, attrs):
        """Note an element."""
        self.seen.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """Note an element without content."""
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        """Compare with what is open."""
        assert tag == self.open.pop()


def tags(text):
    """Return all elements of a page that is well-formed."""
    parser = Tags()
    parser.feed(text)

    assert [] == parser.open
    return parser.seen


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("plan", [Online(), Folds(folds=2)], ids=["online", "folds"])
def test_the_page_is_well_formed_and_asks_for_nothing(index, plan, several):
    """No script, no font, no image, no link: it can be sent to anyone."""
    text = made(index, plan=plan, several=several)
    seen = tags(text)

    assert not {tag for tag, _ in seen} & {"script", "link", "img", "iframe", "a"}
    assert not {name for _, attrs in seen for name in attrs} & {"src", "href", "onload"}
    assert "url(" not in text
    assert "http://prizes" not in re.sub(r"<li[^>]*>.*?</li>", "", text)


def test_every_picture_has_words_and_every_table_a_caption(index):
    """The numbers behind each picture stand beside it."""
    seen = tags(made(index))
    pictures = [attrs for tag, attrs in seen if tag == "svg" and "role" in attrs]
    counted = [tag for tag, _ in seen]

    assert 6 == len(pictures)
    assert all(attrs["aria-label"] for attrs in pictures)
    assert counted.count("table") == counted.count("caption") == 5 + 1 + 1
    assert counted.count("details") == counted.count("figure") == 5


def test_folds_have_no_course_of_time(index):
    """What is learned later teaches what is said of earlier messages."""
    text = made(index, plan=Folds(folds=2))

    assert "Learning curve" not in text
    assert "Errors over time" not in text


def test_the_worst_mistake_has_its_reasons_by_name(index):
    """A feature is shown as text, and escaped; no other text of the mail is there."""
    text = made(index)

    assert "a&lt;b&gt;/lost" in text
    assert re.search(r"<b>\+\d\.\d\d</b> [\w ]+ <small>", text)
    assert re.search(r"<b>[+-]\d+\.\d\d</b> \(\d+ other features\)", text)
    assert "<script" not in text
    assert not re.search(r"#[0-9a-f]{16}", text)


def test_reasons_have_no_control_characters(index):
    """A mail may have some, and the page may be read in a terminal."""
    subject = "Subject: \x9b[".encode()
    for path in [index.parent / "lost", *index.parent.glob("spam*")]:
        path.write_bytes(path.read_bytes().replace(b"Subject:", subject))

    text = made(index)

    assert "\N{REPLACEMENT CHARACTER}[" in text
    assert "\x9b" not in text


def test_nothing_is_certain(index):
    """A mistake of many nats is not said to be spam at 100 %."""
    text = made(index)

    assert "</strong>, more than 99.9 % spam" in text
    assert "100.0 % spam" not in text


def test_the_page_says_how_it_was_made(index):
    """Command, versions, and the digest of the mail."""
    text = made(index)

    assert "postbayes evaluate --index &#39;a&lt;b&gt;/index&#39;" in text
    assert re.search(r"Postbayes \d+\.\d+\.\d+.*Python 3\.\d+", text)
    assert re.search(r">[0-9a-f]{64}<", text)


def test_configurations_stand_side_by_side(index):
    """With the difference and its interval; one alone has no such part."""
    both = made(index, several=True)

    assert "Side by side" in both
    assert "if the interval contains 0, the difference may be chance" in both
    assert "certain" not in both
    assert "Side by side" not in made(index)


def test_more_labels_have_a_figure_of_their_own(index):
    """In the tiles, the table and the meanings; two labels are told by their errors."""
    two = made(index)
    index.write_text(re.sub(r"(?m)^ham (.*[02468])$", r"letter \1", index.read_text()))
    text = made(index, labels=("ham", "letter", "spam"))

    [shown] = re.findall(r"<span>macro-F1</span><b>([\d.]+) %</b>", text)
    assert 0 < float(shown) <= 100
    assert f'<th scope="row">macro-F1 %</th><td>{shown}</td>' in text
    assert "<dt>macro-F1</dt>" in text
    assert "macro-F1" not in two


@pytest.mark.parametrize("label", ["ham", "spam"])
def test_one_side_alone_makes_a_page_too(index, label):
    """What is not defined is a dash."""
    lines = [line for line in index.read_text().splitlines() if line.startswith(label)]
    index.write_text("\n".join(lines))

    assert "none there" in made(index)


def test_one_message_makes_a_page_too(index):
    """Axes without length are drawn."""
    index.write_text("ham ham1\n")

    assert "of 1 messages" in made(index)


def test_cells_are_escaped():
    """A configuration may be called anything."""
    cells = table("c<", ("h<",), [("a<",)], text=1)

    assert '<th scope="row">a&lt;</th>' in cells
    assert "c&lt;" in cells
    assert "h&lt;" in cells


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (1234, "1,234"), (0.5, "0.500")]
)
def test_figures_are_written_for_people(value, text):
    """A dash stands where there is none."""
    assert text == number(value)
