"""The tables of the lectures, from the command line, against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction as F  # noqa: N817  expected values are all fractions

import pytest

# H. Bachmann, Mathematics for Machine Learning, Nagoya University, 2022, lecture 7.
MAIL = """\
class,text
ham,Do math today
ham,Buy book
spam,Buy
spam,Today do math drugs
spam,Buy drugs book today
"""
POINTS = """\
class,x,y
0,0,0
0,2,0
0,1,3
1,4,4
1,6,4
1,5,7
"""
# P. Virtue, 15-388/688 Practical Data Science, Carnegie Mellon University, 2022.
SEVEN = """\
class,text
spam,Money is free now
spam,Sir money to teach
spam,Pat free money now
ham,Pat teach 388
ham,Pat free to teach
ham,Teach 388 now
ham,Pat to teach 301
"""
VOCABULARY = "388 free is money now pat sir teach to tomorrow"
BITS = """\
Y,X1,X2
0,0,0
1,1,0
0,0,1
1,1,1
1,1,0
0,1,0
1,0,1
"""
ANIMALS = """\
class,colour,material
cat,blue,wood
dog,blue,metal
rat,green,metal
rat,red,paper
cat,red,wood
cat,blue,wood
"""
SCORES = """\
class,score,time
1,90,30
2,85,60
3,70,20
3,60,25
1,80,50
1,90,40
"""
# L. Rashidi and L. Frermann, COMP90049, University of Melbourne, 2022, lecture 6.
PATIENTS = """\
headache,sore,temperature,cough,diagnosis
severe,mild,high,yes,Flu
no,severe,normal,yes,Cold
mild,mild,normal,yes,Flu
mild,no,normal,no,Cold
severe,severe,normal,yes,Flu
"""
ANN = "headache=mild,sore=severe,temperature=normal,cough=no"
BOB = "headache=severe,sore=mild,temperature=high,cough=no"
WEATHER = "outlook,temperature,humidity,windy,class\n"
WEATHER_A = (
    WEATHER + "sunny,cool,normal,false,yes\n" * 8 + "overcast,cool,high,true,no\n"
)
WEATHER_B = (
    WEATHER
    + "rainy,hot,normal,true,yes\nrainy,hot,normal,true,no\n" * 3
    + "sunny,cool,normal,false,yes\nsunny,mild,high,false,no\novercast,cool,high,true,no\n"
)
WEATHER_C = WEATHER + ",,,,yes\n" * 4 + ",,,,no\n"
COOL = "outlook=sunny,temperature=cool,humidity=normal,windy=false"
RAINY = "outlook=rainy,temperature=hot,humidity=normal,windy=true"


@pytest.mark.parametrize(
    ("smoothing", "ham", "spam", "posterior"),
    [
        ("none", F(1, 80), F(16, 1215), F(256, 499)),
        ("laplace", F(3, 320), F(972, 78125), F(20736, 36361)),
    ],
)
def test_the_mail_filter_of_five_messages(ask, smoothing, ham, spam, posterior):
    """Bachmann's filter under Bernoulli, with and without smoothing."""
    joint, share = ask(
        MAIL,
        "text=Buy book today",
        *("--target", "class", "--model", "bernoulli", "--smoothing", smoothing),
    )

    assert {"ham": ham, "spam": spam} == joint
    assert posterior == share["spam"]


@pytest.mark.parametrize("point", [(3, 2), (0, 0), (4, 0), (2.5, 5)])
def test_the_gaussian_discriminant_by_hand(answer, learned, point):
    """Bachmann's means and covariance; the log-odds are 6 x + 2 y - 24."""
    x, y = point
    options = ("--target", "class", "--model", "discriminant")
    tables = learned(POINTS, *options)
    means = tables["mean of each class"]
    covariance = tables["covariance, shared by the classes"]
    (prediction,) = answer(POINTS, *options, "--predict", f"x={x},y={y}")["predictions"]
    zero, one = (c["log_joint"] for c in prediction["classes"])

    assert ["1", "5", "1", "5"] == [n["fraction"] for n in means.values()]
    assert ["2/3", "0", "0", "2"] == [n["fraction"] for n in covariance.values()]
    assert 6 * x + 2 * y - 24 == pytest.approx(one - zero, abs=1e-9)


@pytest.mark.parametrize(
    ("model", "smoothing", "ham", "spam", "posterior"),
    [
        ("bernoulli", "none", F(9, 448), 0, 0),
        (
            "bernoulli",
            "laplace",
            F(3125, 367416),
            F(31104, 68359375),
            F(1632586752, 32150164877),
        ),
        ("multinomial", "none", F(48, 15379), F(1, 2016), F(2197, 16021)),
        ("multinomial", "lidstone=1", F(160, 85169), F(9, 18634), F(109503, 535423)),
    ],
)
def test_seven_messages(ask, model, smoothing, ham, spam, posterior):
    """Virtue's messages: a word of the vocabulary in no message, one outside it."""
    joint, share = ask(
        SEVEN,
        "text=Pat teach now",
        *("--target", "class", "--model", model, "--smoothing", smoothing),
        *("--vocabulary", VOCABULARY),
    )

    assert {"ham": ham, "spam": spam} == joint
    assert posterior == share["spam"]


@pytest.mark.parametrize("model", ["bernoulli", "categorical", "auto"])
@pytest.mark.parametrize(
    ("smoothing", "zero", "one", "posterior"),
    [
        ("none", F(2, 21), F(3, 14), F(9, 13)),
        ("laplace", F(18, 175), F(4, 21), F(50, 77)),
    ],
)
def test_seven_rows_of_bits(ask, model, smoothing, zero, one, posterior):
    """Virtue's table: a bit is a word that is there, or a value of two."""
    joint, share = ask(
        BITS,
        "X1=1,X2=0",
        *("--target", "Y", "--model", model, "--smoothing", smoothing),
    )

    assert {"0": zero, "1": one} == joint
    assert posterior == share["1"]


@pytest.mark.parametrize(("prior", "share"), [("fitted", "3/5"), ("smoothed=1", "4/7")])
def test_the_share_of_a_coin(answer, prior, share):
    """The estimates from 1, 1, 0, 0, 1: a table of nothing but the class."""
    classes = answer("y\n1\n1\n0\n0\n1\n", "--target", "y", "--prior", prior)["classes"]

    assert ["0", "1"] == [c["class"] for c in classes]
    assert share == classes[1]["prior_fraction"]
    assert float(F(share)) == pytest.approx(classes[1]["prior"], rel=1e-15)


def test_categories_by_counting(answer, learned):
    """Virtue's table of animals: priors, and each probability."""
    options = ("--target", "class", "--smoothing", "none")
    priors = {
        c["class"]: F(c["prior_fraction"]) for c in answer(ANIMALS, *options)["classes"]
    }
    tables = learned(ANIMALS, *options)
    colour, material = tables["P(colour | class)"], tables["P(material | class)"]

    assert {"cat": F(1, 2), "dog": F(1, 6), "rat": F(1, 3)} == priors
    assert "2/3" == colour["blue", "cat"]["fraction"]
    assert "1/3" == colour["red", "cat"]["fraction"]
    assert "3/3" == material["wood", "cat"]["fraction"]
    assert "1/1" == material["metal", "dog"]["fraction"]
    assert "1/2" == colour["green", "rat"]["fraction"]
    assert "1/2" == material["metal", "rat"]["fraction"]
    assert "1/2" == material["paper", "rat"]["fraction"]
    assert all(
        abs(n["value"] - F(n["fraction"])) < 1e-15
        for table in tables.values()
        for n in table.values()
    )


def test_gaussians_by_maximum_likelihood(learned):
    """Virtue's table of scores: means and variances over n."""
    tables = learned(SCORES, "--target", "class")
    score, time = tables["p(score | class), normal"], tables["p(time | class), normal"]

    assert "260/3" == score["mean", "1"]["fraction"]
    assert "200/9" == score["variance", "1"]["fraction"]
    assert "40" == time["mean", "1"]["fraction"]
    assert "200/3" == time["variance", "1"]["fraction"]
    assert "65" == score["mean", "3"]["fraction"]
    assert "25" == score["variance", "3"]["fraction"]
    assert "45/2" == time["mean", "3"]["fraction"]
    assert "25/4" == time["variance", "3"]["fraction"]


def test_a_class_with_one_row_has_the_floor_or_no_columns(answer, learned):
    """Its variance is zero: the floor stands in, and is said, or columns go."""
    variance = learned(SCORES, "--target", "class")["p(score | class), normal"][
        "variance", "2"
    ]
    dropped = answer(SCORES, "--target", "class", "--constant", "drop")

    assert None is variance["fraction"]
    assert "instead of 0" == variance["note"]
    assert 0 < variance["value"] < 1e-6
    assert [] == dropped["learned"]
    assert [
        "Left out by the gaussian model: score, time (constant in some class)."
    ] == dropped["notes"]


@pytest.mark.parametrize(
    ("mean", "variance", "rows", "expected"),
    [(80, 9, "77,83", -12.99710), (85, 49, "78,92", -10.12516)],
)
def test_the_log_likelihood_of_three_scores(answer, mean, variance, rows, expected):
    """75, 80 and 90 under two normal distributions; the second fits better."""
    low, high = rows.split(",")
    table = f"class,score\na,{low}\na,{high}\nb,0\nb,1\n"
    predictions = answer(
        table,
        *("--target", "class", "--prior", "uniform"),
        *("--predict", "score=75", "--predict", "score=80", "--predict", "score=90"),
    )["predictions"]
    likelihood = sum(
        p["classes"][0]["log_joint"] - math.log(1 / 2) for p in predictions
    )

    assert ((float(low) + float(high)) / 2, ((float(high) - float(low)) / 2) ** 2) == (
        mean,
        variance,
    )
    assert expected == pytest.approx(likelihood, abs=5e-6)


@pytest.mark.parametrize(
    ("question", "smoothing", "cold", "flu", "posterior"),
    [
        (ANN, "none", F(1, 20), 0, 0),
        (ANN, "epsilon=1e-3", F(1, 20), 2 * F(1, 10**3) / 45, F(4, 4504)),
        (ANN, "epsilon=1e-6", F(1, 20), 2 * F(1, 10**6) / 45, F(4, 4500004)),
        (ANN, "laplace", F(3, 125), F(1, 125), F(1, 4)),
        (BOB, "none", 0, 0, F(1, 2)),
        (BOB, "epsilon=1e-2", F(1, 10**6) / 5, 4 * F(1, 100) / 45, F(40000, 40009)),
        (BOB, "laplace", F(1, 500), F(3, 250), F(6, 7)),
    ],
)
def test_two_patients(ask, question, smoothing, cold, flu, posterior):
    """Ann and Bob of Rashidi and Frermann, under each smoothing."""
    joint, share = ask(
        PATIENTS, question, *("--target", "diagnosis", "--smoothing", smoothing)
    )

    assert {"Cold": cold, "Flu": flu} == joint
    assert posterior == share["Flu"]


def test_bob_is_tied_at_nothing(answer):
    """Without smoothing both classes are impossible; neither is decided for."""
    (bob,) = answer(
        PATIENTS,
        *("--target", "diagnosis", "--smoothing", "none", "--predict", BOB),
    )["predictions"]

    assert (None, ["Cold", "Flu"]) == (bob["decision"], bob["tied"])
    assert [None, None] == [c["log_joint"] for c in bob["classes"]]


def test_smoothed_probabilities_of_the_patients(learned):
    """Written as they were counted, with one patient more for each value."""
    tables = learned(PATIENTS, "--target", "diagnosis")
    headache, cough = tables["P(headache | class)"], tables["P(cough | class)"]

    assert "3/6" == headache["severe", "Flu"]["fraction"]
    assert "2/6" == headache["mild", "Flu"]["fraction"]
    assert "1/6" == headache["no", "Flu"]["fraction"]
    assert "4/5" == cough["yes", "Flu"]["fraction"]
    assert "1/5" == cough["no", "Flu"]["fraction"]


@pytest.mark.parametrize(
    ("table", "question", "smoothing", "yes", "no"),
    [
        (WEATHER_A, COOL, "none", F(8, 9), 0),
        (WEATHER_A, COOL, "laplace", F(81, 125), F(1, 243)),
        (WEATHER_B, RAINY, "none", F(3, 16), F(12, 125)),
        (WEATHER_B, RAINY, "laplace", F(320, 3969), F(25, 441)),
        (WEATHER_C, COOL, "none", F(4, 5), F(1, 5)),
        (WEATHER_C, COOL, "laplace", F(4, 5), F(1, 5)),
    ],
)
def test_weather(ask, table, question, smoothing, yes, no):
    """Rashidi and Frermann's days: sure, unsure, and with nothing known."""
    joint, share = ask(
        table, question, *("--target", "class", "--smoothing", smoothing)
    )

    assert {"no": no, "yes": yes} == joint
    assert yes / (yes + no) == share["yes"]


TOMORROW = """\
class,text
ham,Pat teach
ham,Pat to teach
ham,now
ham,free
spam,money
spam,free money
spam,now
"""
DECLARED = ("--vocabulary", "pat teach tomorrow free money now to")


@pytest.mark.parametrize(
    ("model", "smoothing", "ham", "spam"),
    [
        # 4/7 P(words there) P(words absent), and with tomorrow there.
        (
            "bernoulli",
            "laplace",
            F(4, 7) * F(3, 6) ** 2 * F(1, 6) * F(4, 6) * F(5, 6) * F(4, 6) * F(4, 6),
            F(3, 7) * F(1, 5) ** 3 * F(3, 5) * F(2, 5) * F(3, 5) * F(4, 5),
        ),
        ("bernoulli", "none", 0, 0),
        (
            "multinomial",
            "laplace",
            F(4, 7) * F(3, 14) ** 2 * F(1, 14),
            F(3, 7) * F(1, 11) ** 3,
        ),
        ("multinomial", "none", 0, 0),
    ],
)
def test_a_declared_word_that_no_message_has(ask, model, smoothing, ham, spam):
    """It is scored as present, with the estimate that the table prints."""
    joint, share = ask(
        TOMORROW,
        "text=Pat teach tomorrow",
        *("--target", "class", "--model", model, "--smoothing", smoothing, *DECLARED),
    )

    assert {"ham": ham, "spam": spam} == joint
    assert (F(1, 2) if ham == spam else F(spam) / (ham + spam)) == share["spam"]


@pytest.mark.parametrize("separator", [" ", ",", ", "])
def test_a_vocabulary_is_separated_by_blanks_or_commas(ask, separator):
    """A comma is no word of it: among ten words, the fractions are the lecture's."""
    _, share = ask(
        SEVEN,
        "text=Pat teach now",
        *("--target", "class", "--model", "multinomial"),
        *("--vocabulary", VOCABULARY.replace(" ", separator)),
    )

    assert F(109503, 535423) == share["spam"]


def test_a_word_outside_the_vocabulary_is_left_out(answer):
    """Only that one is; the declared word that no message has is not."""
    (prediction,) = answer(
        TOMORROW,
        *("--target", "class", "--model", "multinomial", *DECLARED),
        *("--predict", "text=Pat tomorrow 301"),
    )["predictions"]

    assert ([], ["text 301"]) == (
        prediction["unseen"],
        prediction["outside_vocabulary"],
    )
    assert {"pat": True, "tomorrow": True} == {
        t["feature"]: t["seen"]
        for t in prediction["contributions"]
        if t["column"] == "text"
    }


@pytest.mark.parametrize(
    ("smoothing", "cold", "flu"),
    [
        ("laplace", F(2, 5) * F(1, 6), F(3, 5) * F(1, 7)),
        ("none", 0, 0),
        ("epsilon=1e-3", F(2, 5) * F(1, 1000), F(3, 5) * F(1, 1000)),
    ],
)
def test_a_declared_value_that_no_patient_has(ask, smoothing, cold, flu):
    """A fourth value of headache, in the smoothing of the three others too."""
    declared = ("--values", "headache=no,mild,severe,terrible")
    options = ("--target", "diagnosis", "--smoothing", smoothing, *declared)
    joint, _ = ask(PATIENTS, "headache=terrible", *options)

    assert {"Cold": cold, "Flu": flu} == joint
    joint, _ = ask(PATIENTS, "headache=never", *options)
    assert {"Cold": F(2, 5), "Flu": F(3, 5)} == joint


def test_declared_values_are_in_every_fold(answer):
    """A fold that lacks a value has its estimate all the same: no infinite loss."""
    table = "class,x\na,u\na,v\nb,u\nb,w\n"
    found = answer(
        table, *("--target", "class", "--folds", "4", "--values", "x=u,v,w,z")
    )

    assert ["u", "v", "w", "z"] == [r["name"] for r in found["learned"][0]["rows"]]
    # Without its row: (prior) 1/3 * 1/5, against 2/3 of 1/6 or 2/6.
    losses = [
        -math.log(own / (own + other))
        for own, other in [
            (F(1, 3) * F(1, 5), F(2, 3) * F(2, 6)),
            (F(1, 3) * F(1, 5), F(2, 3) * F(1, 6)),
        ]
    ]
    assert sum(losses) / 2 == pytest.approx(found["cross_validation"]["log_loss"])
