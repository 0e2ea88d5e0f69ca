"""`postbayes lab`: naive Bayes on a table, shown as on a board."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Option

from app.doors.cli.console import AsJson, complete_or_absent, grid, show, this_command
from app.errors import MalformedTable
from app.lab import design as rules
from app.lab.design import design
from app.lab.groups import (
    Choices,
    four_digits,
    power,
    probability,
    with_decimals,
    written,
)
from app.lab.page import page
from app.lab.report import (
    Study,
    compare,
    confusion_table,
    cross_validate,
    effects_table,
    learned,
    learned_rows,
    measures_table,
    nats,
    prior_table,
    tested,
    training,
)
from app.lab.table import Kind, Model, named, question, questions, read_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.table import Table

    from app.lab.fitted import Fitted, Regressed
    from app.lab.prediction import Prediction
    from app.lab.report import Validation

SHOWN_ROWS = 40
"""Most printed rows of a learned table; `--json` has all of them."""
TWO = 2
"""Number of classes whose log-odds are a single number."""
SHOWN_PRODUCT = 100
"""Longest product that is written out.  Unit: characters."""


def lab(
    table: Path,
    target: Annotated[str, Option(metavar="COLUMN")],
    model: Annotated[Model, Option(metavar="NAME")] = Model.AUTO,
    smoothing: Annotated[str, Option(metavar="SMOOTHING")] = "laplace",
    prior: Annotated[str, Option(metavar="PRIOR")] = "fitted",
    columns: Annotated[str | None, Option(metavar="COLUMNS")] = None,
    as_kind: Annotated[list[str] | None, Option("--as", metavar="COLUMN=KIND")] = None,
    vocabulary: Annotated[str | None, Option(metavar="WORDS")] = None,
    values: Annotated[list[str] | None, Option(metavar="COLUMN=VALUES")] = None,
    constant: Annotated[str, Option(metavar="RULE")] = "floor",
    variances: Annotated[Literal["class", "shared"], Option(metavar="RULE")] = "class",
    shrinkage: Annotated[str, Option(metavar="SHARE")] = "0",
    deviation: float | None = None,
    predict: Annotated[list[str] | None, Option(metavar="ROW")] = None,
    predict_csv: Annotated[Path | None, Option(metavar="FILE")] = None,
    test: Annotated[Path | None, Option(metavar="FILE")] = None,
    folds: int | None = None,
    seed: Annotated[int, Option(min=0)] = 0,
    alphas: Annotated[str | None, Option(metavar="A,A...")] = None,
    page_file: Annotated[Path | None, Option("--report", metavar="FILE")] = None,
    as_json: AsJson = False,
) -> None:
    """Fit a model to a table, print what it learned, and predict rows.

    Naive Bayes and logistic regression, for teaching, and for checking examples by
    hand. Nothing is stored. An empty cell means unknown, and is left out.

    Parameters
    ----------
    table
        A CSV file in UTF-8; its first line names columns.
    target
        The column to predict.
    model
        auto, categorical, gaussian, discriminant, bernoulli, multinomial, mixed or
        logistic. With auto and mixed each column gets the model of its kind; logistic
        regression takes columns of all kinds.
    smoothing
        none, laplace (lidstone=1), lidstone=A or epsilon=E.
    prior
        fitted, uniform, smoothed=A or fixed=P,P... in the order of the classes.
    columns
        The columns to learn from, separated by commas; all by default.
    as_kind
        The kind of a column: category, measurement, text or count. May be repeated.
    vocabulary
        The words to use in text columns, separated by blanks or commas; by default all
        in the table. A declared word that no row has gets its smoothed estimate.
    values
        The possible values of a category column, as column=a,b,c; by default all in the
        table. May be repeated.
    constant
        Treatment of a measurement that does not vary within a class: floor gives it a
        tiny variance, drop leaves it out, add=E adds E to every variance.
    variances
        For the Gaussian model: each class has its own variances, or all classes share
        one per column, which makes the model linear.
    shrinkage
        For the correlations of the discriminant: a share from 0 to 1, or estimated
        (Ledoit and Wolf).
    deviation
        For logistic regression: the standard deviation of a Gaussian prior on the
        difference between two classes' weights; maximum likelihood by default.
    predict
        A row to predict, as column=value, separated by commas. May be repeated.
    predict_csv
        A CSV file of rows to predict.
    test
        A CSV file of rows with their classes: prints accuracy, error rate, confusion,
        log-likelihood, and precision, recall and F1 of each class.
    folds
        Cross-validate with this number of stratified folds.
    seed
        Random seed for the folds.
    alphas
        Pseudo-counts to compare, separated by commas, by the log-likelihoods and the
        predictions that they give.
    page_file
        Write one HTML page with the tables and diagrams: likelihoods by class, decision
        boundary of two measured columns, weights as bars.
    """
    _require_other(page_file, (table, predict_csv, test))
    source = read_table(table)
    choices = Choices(
        target=target,
        model=model,
        columns=None if columns is None else _names(columns),
        kinds=_kinds(as_kind or []),
        smoothing=rules.smoothing(smoothing),
        prior=rules.prior(prior),
        vocabulary=vocabulary,
        values=_values(values or []),
        constant=rules.constant(constant),
        shrinkage=rules.shrinkage(shrinkage),
        variances=variances,
        deviation=deviation,
    )
    fitted = learned(design(source, choices))
    known = [column for column in source.columns if column != target]
    asked = [question(words, known) for words in predict or []]
    predictions = [fitted.predict(row) for row in asked]
    if predict_csv is not None:
        more = read_table(predict_csv)
        with named(predict_csv):
            asked += questions(more, known, target=target)
            predictions += [fitted.predict(row) for row in asked[len(predictions) :]]
    on_test = by_folds = None
    if test is not None:
        gold = read_table(test)
        with named(test):
            rows = questions(gold, known, target=target)
            on_test = tested(fitted, rows, name=f"Test: {test}")
    if folds is not None:
        by_folds = cross_validate(fitted.design, folds=folds, seed=seed)
    effects = []
    if alphas is not None:
        effects = compare(
            source, choices, rules.pseudo_counts(alphas), asked, folds=folds, seed=seed
        )
    study = Study(
        model=fitted,
        predictions=predictions,
        training=training(fitted),
        test=on_test,
        folds=by_folds,
        effects=effects,
    )
    if page_file is not None:
        with complete_or_absent(page_file) as part:
            # The command may name files whose names are no text.
            html = page(study, command=this_command()).encode("utf-8", "replace")
            part.write_bytes(html)
    lines = chain(_lines(study), ["", f"The page is {page_file}"] if page_file else ())
    show(study.document(), lines, as_json=as_json)


def _require_other(page_file: Path | None, tables: Iterable[Path | None]) -> None:
    """Refuse to write the page over a table."""
    if page_file is None or not page_file.exists():
        return
    for table in tables:
        if table is not None and table.exists() and page_file.samefile(table):
            msg = f"--report would overwrite the table {table}; name another file"
            raise MalformedTable(msg)


def _names(listed: str) -> tuple[str, ...]:
    """Return the names in a comma-separated list, quoted as in a CSV file."""
    names = next(csv.reader([listed], skipinitialspace=True), [])
    return tuple(name.strip() for name in names if name.strip())


def _kinds(given: Iterable[str]) -> dict[str, Kind]:
    kinds = {}
    for words in given:
        column, _, kind = (word.strip() for word in words.rpartition("="))
        if not column or kind not in set(Kind):
            msg = f"--as takes COLUMN=KIND with one of {', '.join(Kind)}, not {words!r}"
            raise MalformedTable(msg)
        kinds[column] = Kind(kind)
    return kinds


def _values(given: Iterable[str]) -> dict[str, tuple[str, ...]]:
    values = {}
    for words in given:
        column, _, listed = (word.strip() for word in words.partition("="))
        names = tuple(dict.fromkeys(_names(listed)))
        if not column or not names:
            raise MalformedTable(f"--values takes COLUMN=VALUE,VALUE..., not {words!r}")
        values[column] = names
    return values


Lines = Iterator["str | Table"]


def _lines(study: Study) -> Lines:
    """Yield what people read."""
    yield from _model_lines(study.model, study.training)
    for prediction in study.predictions:
        yield from _prediction_lines(prediction, study.model)
    for validation in study.validations[1:]:
        yield from _validation_lines(validation, study.classes)
    by_alpha = effects_table(study.effects, study.classes)
    yield from _table("what the pseudo-count does", *by_alpha)


def _model_lines(fitted: Fitted | Regressed, train: Validation) -> Lines:
    """Yield the columns of the table, and the learned model."""
    plan = fitted.design
    yield f"{len(plan.rows)} rows with a {plan.target}"
    yield from fitted.notes
    kinds = [(c, str(kind), plan.model(c)) for c, kind in plan.kinds.items()]
    yield from _table(None, ("column", "kind", "model"), kinds)
    yield from _table("P(class)", *prior_table(fitted))
    linear = fitted.linear()
    for table in (*fitted.learned(), *([linear] if linear else [])):
        rows = learned_rows(table)
        yield from _table(table.title, ("", *table.header), rows[:SHOWN_ROWS])
        if len(rows) > SHOWN_ROWS:
            yield f"and {len(rows) - SHOWN_ROWS} more; --json has all of them"
    if train.log_joint is not None:
        yield ""
        yield f"log-likelihood of the table: {nats(train.log_joint)} nats"


def _prediction_lines(prediction: Prediction, fitted: Fitted | Regressed) -> Lines:
    """Yield the prediction for one row."""
    classes, target = fitted.design.classes, fitted.design.target
    joint, posterior = prediction.joint, prediction.posterior
    # A density is not a probability, and is written with a small letter.
    value_of = {
        "probability": "P(class) P(row | class)",
        "density": "P(class) p(row | class)",
        "score": "exp(w . x + b)",
    }[prediction.kind]
    cells = ", ".join(
        f"{column}={cell}"
        for column, cell in prediction.row.cells.items()
        if column != target
    )
    what = prediction.row.where.partition("'")[0].removeprefix("the ").strip()
    yield ""
    yield f"{what.capitalize()}: {cells or 'nothing is known'}"
    rows = []
    for c, name in enumerate(classes):
        value = power(float(prediction.log_joint[c]))
        if joint and prediction.factors:
            value = with_decimals(written(joint[c]), float(joint[c]))
            product = " * ".join(str(f) for f in prediction.factors[c])
            if len(product) <= SHOWN_PRODUCT and len(prediction.factors[c]) > 1:
                value = f"{product} = {value}"
        exact = written(posterior[c] if posterior else None)
        rows.append((name, value, probability(exact, prediction.log_posterior, c)))
    yield from _table(None, (target, value_of, "P(class | row)"), rows)
    decided = "A tie of " if len(prediction.best) > 1 else "Decision: "
    was = f", and it was {prediction.actual}" if prediction.actual else ""
    yield f"{decided}{' and '.join(classes[c] for c in prediction.best)}{was}"
    orders = prediction.orders or f"exp({prediction.coefficient:.6g})"
    same = [f"the multinomial coefficient, {orders}"] if prediction.coefficient else []
    for why, omitted in (
        ("never seen", prediction.unseen),
        ("outside the vocabulary", prediction.outside),
        ("it is the same in each class", same),
    ):
        if omitted:
            yield f"Omitted, because {why}: {', '.join(omitted)}"
    if prediction.linear is not None and len(classes) == TWO:
        z = float(prediction.linear[1] - prediction.linear[0])
        yield f"P({classes[1]} | row) = 1 / (1 + exp(-z)), z = w . x + b = {nats(z)}"
    terms = [
        *((t.column, t.feature, t.nats) for t in prediction.terms),
        ("sum", "", prediction.log_joint),
    ]
    yield from _table(
        "what each part adds to the logarithm (nats)",
        ("", "", *classes),
        [(column, feature, *map(nats, of.tolist())) for column, feature, of in terms],
    )


def _validation_lines(validation: Validation, classes: Sequence[str]) -> Lines:
    """Yield the figures for rows with a known class."""
    share = with_decimals(f"{validation.right}/{validation.rows}", validation.accuracy)
    yield ""
    yield validation.name
    yield f"accuracy {share}, error rate {four_digits(validation.error_rate, 1.0)}"
    yield (
        f"log-loss infinite (rows whose own class was impossible: "
        f"{validation.impossible})"
        if validation.impossible
        else f"log-loss {validation.log_loss:.4f} nats"
    )
    line = f"log-likelihood of the classes: {nats(validation.log_likelihood)} nats"
    if validation.log_joint is not None:
        line += f"; of classes and rows: {nats(validation.log_joint)} nats"
    yield line
    shown = confusion_table(validation, classes)
    yield from _table("rows by class (down) and decision (across)", *shown)
    yield from _table("by class", *measures_table(validation, classes))


def _table(
    title: str | None, header: Sequence[str], rows: Sequence[Sequence[str]]
) -> Lines:
    """Yield a table below its title; nothing without rows."""
    if rows:
        yield from ("", *([title] if title else []))
        yield grid(header, rows)
