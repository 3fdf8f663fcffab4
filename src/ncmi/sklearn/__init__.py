"""``NCMIClassifier`` for scikit-learn: ``classifier.py`` is the estimator, ``training.py`` what learns inside it."""

from importlib.util import find_spec

if find_spec("sklearn") is None:
    raise ImportError("NCMIClassifier: scikit-learn must be installed; it is not. Run: pip install 'scikit-learn>=1.6'")

from ncmi.sklearn.classifier import NCMIClassifier

__all__ = ["NCMIClassifier"]
