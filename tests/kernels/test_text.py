"""Each kernel of text equals a few plain lines, and stays inside its arrays."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.features.observation import FeatureNames, ids_of
from app.features.tokens import Tokens, of_name, of_text, tokens_of, words_of
from app.kernels import text as kernel
from app.kernels.text import NAME, TEXT, WHOLE
from tests.support import plain_text

letters = st.one_of(
    st.characters(max_codepoint=127),
    st.sampled_from(".-$! aZ@"),
    st.characters(min_codepoint=0xA0, max_codepoint=0x52F),
    st.characters(min_codepoint=0x590, max_codepoint=0xFFF, exclude_categories=["Cs"]),
    st.sampled_from(
        "日本語カナ한국어ภาษาｆｕｌｌ…ﬁ½㈱ﷺ\u200b\u00ad\ufeff\u034f\ufe0f\u3164\U0001f600"
    ),
    st.sampled_from("e\u0301\u0323ᄀ\u1161\u11a8ｶﾞ\U00020000\U000e0067\U0002fa1d\u3000"),
    st.characters(exclude_categories=["Cs"]),
)
texts = st.one_of(
    st.text(letters, max_size=80),
    st.text(st.characters(max_codepoint=127), max_size=300),
    st.lists(st.sampled_from(["a", ".", "b" * 39, "c" * 41, "-.-", " ", "日"])).map(
        "".join
    ),
)
# Words for people have no tag but this one, and others.
kinds = st.sampled_from(
    [
        *[("", how) for how in (TEXT, NAME, WHOLE)],
        ("subject:", TEXT),
        *[("in-reply-to:", how) for how in (NAME, WHOLE)],
    ]
)
spans = st.lists(
    st.tuples(kinds, texts).map(lambda x: (x[0][0], x[1], x[0][1])), max_size=5
)


@given(texts)
def test_texts_are_split_as_regular_expressions_split_them(text):
    """In any script, by the definitions of `app.features.tokens`."""
    assert plain_text.words(text, TEXT) == of_text(text)
    assert plain_text.words(text, NAME) == of_name(text)


def test_every_character_is_of_its_class():
    """By itself, between letters, beside a mark; of Han and beyond some."""
    codes = [*range(0x3100), *range(0x3100, 0xD800, 9), *range(0xE000, 0x110000, 97)]
    blocks = [codes[i : i + 100] for i in range(0, len(codes), 100)]
    given_texts = [
        "".join(f" a.{chr(c)}.b({chr(c)}{chr(c)} {chr(c)}" for c in block)
        for block in blocks
    ]

    assert [plain_text.words(text, TEXT) for text in given_texts] == [
        *map(of_text, given_texts)
    ]


@given(spans)
def test_spans_are_tagged_and_hashed(given_spans):
    """Tokens, ids, and the ends of the spans."""
    each = [plain_text.tokens(span) for span in given_spans]
    names = [name for words in each for name in words]
    found = tokens_of(given_spans)

    assert names == words_of(given_spans)
    assert plain_text.ids(names).tolist() == found.ids.tolist()
    assert [*accumulate(map(len, each), initial=0)] == [
        found.count(i) for i in range(len(each) + 1)
    ]


def test_every_letter_has_the_id_of_its_base():
    """Of all characters, Latin ones with an accent or a stroke; also within a word."""
    names = [
        form.format(chr(code))
        for code in (
            *range(0x21, 0x2100),
            *range(0x2C60, 0x2C80),
            *range(0xA720, 0xA800),
        )
        for form in ("{0}", "ca{0}é")
        # No word has one beside a letter.
        if chr(code) != ":"
    ]
    found = tokens_of([("", name, WHOLE) for name in names])

    assert plain_text.ids(names).tolist() == found.ids.tolist()
    assert ids_of(names).tolist() == found.ids.tolist()


@given(st.lists(st.text("ab013457$!29-'é", min_size=1), min_size=1))
def test_digits_and_signs_are_those_of_the_plain_reference(names):
    """Between letters, at ends, in rows, and beside what does not count."""
    found = tokens_of([("", name, WHOLE) for name in names])

    assert plain_text.ids(names).tolist() == found.ids.tolist()
    assert ids_of(names).tolist() == found.ids.tolist()


@given(spans, spans)
def test_tokens_of_more_spans_are_added(some, more):
    """As if all had been read at once."""
    together = tokens_of(some) + tokens_of(more)
    at_once = tokens_of([*some, *more])

    assert at_once.text == together.text
    for field in ("bounds", "ids", "ends"):
        assert getattr(at_once, field).tolist() == getattr(together, field).tolist()


def test_ids_are_those_of_the_library():
    """xxh3 of every length, at places that are aligned and not."""
    for size in range(1025):
        name = "".join(chr(33 + i * i * size % 90) for i in range(size))
        found = tokens_of([("", "x" * (size % 7), WHOLE), ("", name, WHOLE)])

        assert plain_text.ids([name]).tolist() == found.ids[1:].tolist(), size


@given(
    st.text(
        st.sampled_from(
            "aZ .1\xe9\xd7\u037e\u055d\u0430\u0391\u0500\u0530\u0561\u13a0\u1400\u036f\u0628\u200b\u200d\u200e\u202e\u2064\u2065\u202a\u2069\ufeff\u00ad\u034f"
            "\ufe10\ufe0f\ufff8\ufff9\U000e0100\xa0\u2000\u200a\u2800"
        )
    )
)
def test_disguises_are_those_of_regular_expressions(text):
    """Invisible and misordered characters, and mixed scripts."""
    blanks = "\u00a0\u2000-\u200a\u202f\u205f\u2800"
    letter, between = f"(?![{blanks}])[a-zA-Z\x80-\U0010ffff]", f"[ *.{blanks}-]"
    patterns = {
        kernel.INVISIBLE: "[\u00ad\u2060-\u2064\ufeff]"
        "|(?:\\A|[\0-\u058f])[\u200b-\u200d]"
        f"|[a-zA-Z](?![\u202d\u202e])[{plain_text.UNSEEN}][a-zA-Z\x80-\U0010ffff]",
        kernel.BIDI: "[\u202d\u202e]",
        kernel.MIXED: plain_text.MIXED,
        kernel.SPACED: f"(?<![a-zA-Z0-9])(?:{letter}{between}{{1,2}}){{3}}"
        f"{letter}(?![a-zA-Z0-9])",
    }
    expected = sum(bit for bit, p in patterns.items() if re.search(p, text))

    assert expected == kernel.disguises(np.frombuffer(text.encode(), np.uint8))


@given(
    st.lists(st.text(st.one_of(st.sampled_from('"\\\n\b\x7f'), letters)), min_size=1),
    st.integers(1, 2),
)
def test_names_are_quoted_as_json_quotes_them(words, of_name):
    """Controls, marks, all planes; names of one word and of two."""
    pieces = [word.encode() + b" " for word in words]
    bounds = np.array([0, *accumulate(map(len, pieces))])
    at = np.arange(len(words) - of_name, -1, -1)
    names = FeatureNames(b"".join(pieces), bounds, at, of_name)

    assert json.dumps(list(names), separators=(",", ":")).encode() == names.as_json()


sizes = st.integers(0, 40)


@given(st.text(st.sampled_from("\r\r\r\na"), max_size=30))
def test_line_ends_are_those_of_an_expression(text):
    """However often a program has added CR; without LF each is a line end."""
    source = np.frombuffer(text.encode(), np.uint8)
    into = np.empty(source.size, np.uint8)
    written = into[: kernel.with_lf(source, into)].tobytes().decode()

    assert re.sub("\r+\n|\r", "\n", text) == written


@given(
    st.binary(max_size=60),
    st.lists(st.integers(-9, 99), max_size=9),
    st.binary(max_size=4),
    st.tuples(sizes, sizes, sizes, sizes, sizes, sizes),
)
def test_any_arguments_are_read_and_written_inside_the_arrays(data, stops, hows, sizes):
    """Bytes that are no UTF-8, spans that are nowhere, and rooms that are too small."""
    source = np.frombuffer(data, np.uint8)
    places = np.array(stops, np.int64)
    wide, *lengths = sizes
    text = np.empty(lengths[0], np.uint8)
    bounds, ids, ends, dotted = (np.empty(n, np.int64) for n in lengths[1:])
    classes = np.arange(wide, dtype=np.uint8)
    folds = np.frombuffer(bytes(range(wide)), np.uint8)
    count = kernel.tokenized(
        source, places, np.frombuffer(hows, np.uint8), classes, 3,
        text, bounds, ids, ends, dotted,
    )  # fmt: skip

    assert 0 <= count <= max(0, min(ids.size, bounds.size - 1))
    assert kernel.folded(source, np.array(stops, np.int32), folds, text) <= text.size
    assert kernel.quoted(source, places, places // 9, wide % 3, text) <= text.size
    assert kernel.with_lf(source, text) <= text.size
    kernel.plain_ids(
        source, places, places, np.frombuffer(hows, np.uint8), ends, folds, text, ids
    )
    assert 0 <= kernel.disguises(source) < 16


@pytest.mark.slow
@pytest.mark.skipif("NUMBA_BOUNDSCHECK" in os.environ, reason="it runs this test")
def test_no_index_is_outside_its_array(tmp_path):
    """The tests of kernels of bytes, compiled with a check of each index.

    Those of columns and of sums run as Python as well, which checks each index.
    """
    root = Path(__file__).parents[2]
    # A copy, because compiled code that is kept on disk is not checked.
    for folder in ("app", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", "golden", "vault")
        shutil.copytree(root / folder, tmp_path / folder, ignore=ignored)
    shutil.copy(root / "pyproject.toml", tmp_path)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0",
         *[str(Path(__file__).with_name(f"test_{name}.py").relative_to(root))
           for name in ("text", "ids", "markup", "reasons")]],
        cwd=tmp_path,
        env={
            **os.environ,
            "NUMBA_BOUNDSCHECK": "1",
            "NUMBA_OPT": "1",
            "PYTHONPATH": str(tmp_path),
        },
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stdout[-2_000:] + ran.stderr[-2_000:]
    assert isinstance(tokens_of([]), Tokens)
