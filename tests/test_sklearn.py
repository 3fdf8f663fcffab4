"""``NCMIClassifier``: scikit-learn's own checks, its tools around the estimator, and what the checks do not see."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import ncmi
from ncmi import CentroidClassifier, NCMIClassifier, NCMILoss

QUICK = {"hidden_layer_sizes": (32, 16), "learning_rate": 1e-2, "max_iter": 5, "random_state": 0}

EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "batches are drawn by sample, so a weight of two is not two copies",
}


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def fitted(iris):
    return NCMIClassifier(**QUICK).fit(*iris)


@parametrize_with_checks(
    [NCMIClassifier(**(QUICK | {"random_state": None}))],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
    xfail_strict=True,
)
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_digits_at_the_defaults_but_for_fewer_passes():
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=500, stratify=y, random_state=0)
    classifier = NCMIClassifier(max_iter=15, random_state=0).fit(X_train, y_train)
    assert classifier.score(X_test, y_test) > 0.95
    assert log_loss(y_test, classifier.predict_proba(X_test)) < 0.2


def test_the_parts_agree(fitted, iris):
    X, y = iris
    scores = fitted.decision_function(X)
    assert (fitted.predict(X) == scores.argmax(axis=1)).all()
    assert (fitted.predict(X) == fitted.predict_proba(X).argmax(axis=1)).all()
    rows = torch.from_numpy(fitted.scaler_.transform(X)).float()
    with torch.no_grad():
        assert np.allclose(fitted.transform(X), fitted.network_(rows).numpy())
        divergence = -CentroidClassifier.from_loss(fitted.criterion_)(fitted.network_(rows).double()).numpy()
    assert np.allclose(scores, -8 * np.log(divergence))
    own = fitted.predict_proba(X)[np.arange(150), y]
    with torch.no_grad():
        assert np.allclose(-np.log(own), fitted.criterion_(fitted.network_(rows), torch.from_numpy(y)), atol=1e-4)
    assert list(fitted.get_feature_names_out()[:2]) == ["ncmiclassifier0", "ncmiclassifier1"]


def test_the_centroids_are_learned(fitted):
    start = NCMILoss(3, 16).centroids.xi
    assert not torch.allclose(fitted.criterion_.centroids.xi, start, atol=1e-3)


def test_units_of_the_columns_do_not_matter(fitted, iris):
    X, y = iris
    scaled = X * [1e-6, 1.0, 1e3, 1e6] + 5.0
    assert (NCMIClassifier(**QUICK).fit(scaled, y).predict(scaled) == fitted.predict(X)).mean() > 0.98


def test_labels_may_be_words(iris):
    X, y = iris
    words = np.array(["setosa", "versicolor", "virginica"])[y]
    assert set(NCMIClassifier(**QUICK).fit(X, words).predict(X)) <= set(words)


def test_the_seed_decides_and_the_global_random_numbers_stay(fitted, iris):
    X, _ = iris
    before = torch.random.get_rng_state()
    again = clone(fitted).fit(*iris)
    assert torch.random.get_rng_state().equal(before)
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    other = clone(fitted).set_params(random_state=1).fit(*iris)
    assert not np.array_equal(other.predict_proba(X), fitted.predict_proba(X))


def test_a_fitted_estimator_pickles_and_goes_on_learning(fitted, iris):
    X, y = iris
    copy = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(copy.predict_proba(X), fitted.predict_proba(X))
    copy.partial_fit(X, y)
    assert copy.n_iter_ == fitted.n_iter_ + 1
    assert not np.array_equal(copy.transform(X), fitted.transform(X))


def test_inside_the_tools_of_scikit_learn(iris):
    X, y = iris
    pipeline = make_pipeline(MinMaxScaler(), NCMIClassifier(**(QUICK | {"max_iter": 20})))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.8
    search = GridSearchCV(pipeline, {"ncmiclassifier__temperature": [0.2, 0.1]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.8
    calibrated = CalibratedClassifierCV(NCMIClassifier(**QUICK), cv=2).fit(X, y)
    assert calibrated.score(X, y) > 0.8


def test_early_stopping_keeps_the_best_pass(iris, capsys):
    X, y = iris
    settings = QUICK | {"max_iter": 200, "early_stopping": True, "n_iter_no_change": 2, "verbose": True}
    classifier = NCMIClassifier(**settings).fit(X, y)
    curve = classifier.validation_loss_curve_
    assert classifier.n_iter_ == len(curve) == len(classifier.loss_curve_) == int(np.argmin(curve)) + 3 < 200
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"pass {len(curve)} of 200: loss ")
    whole = NCMIClassifier(**(settings | {"max_iter": int(np.argmin(curve)) + 1, "n_iter_no_change": 200}))
    assert len(whole.fit(X, y).loss_curve_) == int(np.argmin(curve)) + 1


def test_partial_fit_learns_from_chunks(iris):
    X, y = iris
    order = np.random.default_rng(0).permutation(len(y))
    classifier = NCMIClassifier(**(QUICK | {"batch_size": 16}))
    for _ in range(5):
        for chunk in np.array_split(order, 3):
            classifier.partial_fit(X[chunk], y[chunk], classes=[0, 1, 2])
    assert classifier.score(X, y) > 0.9
    assert classifier.n_iter_ == 15
    assert np.allclose(classifier.scaler_.mean_, X.mean(axis=0))


def test_a_chunk_may_lack_classes(iris):
    X, y = iris
    classifier = NCMIClassifier(**QUICK).partial_fit(X[:60], y[:60], classes=[0, 1, 2])
    assert classifier.predict_proba(X).shape == (150, 3)


def test_weights_count(iris):
    X, y = iris
    weight = np.where(y == 2, 0.0, 1.0)
    without = NCMIClassifier(**QUICK).fit(X, y, sample_weight=weight)
    assert list(without.classes_) == [0, 1, 2]
    assert 2 not in without.predict(X[y != 2])
    heavy = NCMIClassifier(**QUICK).fit(X[:, :1], y, sample_weight=np.where(y == 1, 20.0, 1.0))
    light = NCMIClassifier(**QUICK).fit(X[:, :1], y, sample_weight=np.where(y == 1, 0.05, 1.0))
    assert (heavy.predict(X[:, :1]) == 1).sum() > (light.predict(X[:, :1]) == 1).sum()
    equal = NCMIClassifier(**QUICK).fit(X, y, sample_weight=np.full(150, 3.0))
    assert np.array_equal(equal.transform(X), NCMIClassifier(**QUICK).fit(X, y).transform(X))


def test_a_class_of_one_sample(iris):
    X, y = iris
    labels = np.r_[y[:60], 7]
    assert list(NCMIClassifier(**QUICK).fit(X[:61], labels).classes_) == [0, 1, 7]
    two = NCMIClassifier(**QUICK).fit(X[[0, 60]], [0, 1])
    assert np.isfinite(two.predict_proba(X)).all()


def test_temperature_and_exponent_reach_the_loss(iris):
    classifier = NCMIClassifier(**QUICK, temperature=0.1, exponent=2.0).fit(*iris)
    assert classifier.criterion_.temperature == 0.1
    assert classifier.criterion_.objective.name == "harmonic(exponent=2.0)"
    stated = classifier.predict_proba(iris[0])
    assert np.array_equal(classifier.set_params(exponent=8.0).predict_proba(iris[0]), stated), "a fit keeps its own"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_iter": 0}, "max_iter must be at least 1; got 0"),
        ({"batch_size": 0}, "batch_size must be at least 1; got 0"),
        ({"n_iter_no_change": 0}, "n_iter_no_change must be at least 1"),
        ({"validation_fraction": 1.0}, r"validation_fraction must lie between 0 and 1; got 1\.0"),
        ({"hidden_layer_sizes": ()}, "hidden must hold at least one size"),
        ({"temperature": 0.0}, "temperature must be positive"),
        ({"exponent": 0.0}, "exponent must be positive"),
    ],
)
def test_settings_that_cannot_be(iris, settings, message):
    with pytest.raises(ValueError, match=message):
        NCMIClassifier(**(QUICK | settings)).fit(*iris)


def test_samples_that_cannot_be(iris):
    X, y = iris
    one_class = NCMIClassifier(**QUICK)
    with pytest.raises(ValueError, match="two or more classes"):
        one_class.fit(X[:50], y[:50])
    assert one_class.partial_fit(X[:50], y[:50], classes=[0, 1]).n_iter_ == 1  # as the sentence says
    with pytest.raises(ValueError, match="at least one non-zero"):
        NCMIClassifier(**QUICK).fit(X, y, sample_weight=np.zeros(150))
    with pytest.raises(ValueError, match="least populated class"):
        NCMIClassifier(**QUICK, early_stopping=True).fit(X[:61], np.r_[y[:60], 7])
    with pytest.raises(NotFittedError):
        NCMIClassifier().predict(X)


def test_a_rate_at_which_training_breaks(iris):
    with pytest.raises((FloatingPointError, ValueError), match=r"finite|NaN"):
        NCMIClassifier(**(QUICK | {"learning_rate": 1e38})).fit(*iris)


def test_classes_of_partial_fit(iris):
    X, y = iris
    with pytest.raises(ValueError, match="must name every label"):
        NCMIClassifier(**QUICK).partial_fit(X, y)
    classifier = NCMIClassifier(**QUICK).partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="must be those of the first call"):
        classifier.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="labels must be among the classes"):
        classifier.partial_fit(X, y + 1)


def test_scikit_learn_is_imported_when_it_is_asked_for():
    code = (
        "import sys; sys.modules['sklearn'] = None; import ncmi; ncmi.NCMILoss\n"
        "from ncmi import *\n"
        "try: ncmi.NCMIClassifier\n"
        "except ImportError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install" in run.stdout
    assert "NCMIClassifier" in dir(ncmi)
