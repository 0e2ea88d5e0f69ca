"""The page on the mathematics is run, not only printed."""

from __future__ import annotations

import doctest
import pkgutil
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "mathematics.md"
TEXT = PAGE.read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r"`(app\.bayes\.[\w.]+)`", TEXT)))


def test_every_example_of_the_page_gives_what_it_prints():
    """Its code blocks are one doctest, top to bottom."""
    source = TEXT.replace("```", "\n")
    page = doctest.DocTestParser().get_doctest(source, {}, PAGE.name, str(PAGE), 0)
    outcome = doctest.DocTestRunner(verbose=False).run(page)

    assert 0 == outcome.failed
    assert outcome.attempted > 150


def test_every_code_block_of_the_page_is_an_example():
    """Nothing is printed that is not run."""
    blocks = re.findall(r"```(\w*)\n(.*?)```", TEXT, re.DOTALL)

    assert len(blocks) > 10
    assert all("python" == kind and code.startswith(">>> ") for kind, code in blocks)


@pytest.mark.parametrize("name", NAMES)
def test_every_function_that_the_page_names_exists(name):
    """A formula names the function that computes it."""
    assert pkgutil.resolve_name(name).__doc__


def test_the_linear_members_are_on_the_page():
    """Each form, and the regression that has no other."""
    forms = ["multinomial", "categorical", "bernoulli", "gaussian", "discriminant"]
    named = {name.rsplit(".", 1)[1] for name in NAMES}

    assert {f"{form}_form" for form in forms} | {"regress"} <= named


def test_every_event_model_is_on_the_page():
    """A student finds all six."""
    models = ["Multinomial", "Bernoulli", "Categorical", "Gaussian", "Discriminant"]
    models.append("Differential")
    named = {name.rsplit(".", 1)[1] for name in NAMES}

    assert set(models) <= named
