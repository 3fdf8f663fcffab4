"""scikit-learn: ``NCMIClassifier`` on a table, alone and inside a search."""

import pickle

from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split

from ncmi import NCMIClassifier


def main() -> NCMIClassifier:
    """Train, pickle and judge; then choose a setting by cross-validation."""
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    classifier = NCMIClassifier(random_state=0).fit(X_train, y_train)
    classifier = pickle.loads(pickle.dumps(classifier))
    print(f"accuracy on {len(y_test)} test images {classifier.score(X_test, y_test):.3f}")
    print(f"probabilities {classifier.predict_proba(X_test).shape}, features {classifier.transform(X_test).shape}")

    quick = NCMIClassifier(max_iter=20, random_state=0)
    search = GridSearchCV(quick, {"hidden_layer_sizes": [(64,), (128, 64)]}, cv=3).fit(X_train[:300], y_train[:300])
    print(f"best of the search {search.best_params_}")
    return classifier


if __name__ == "__main__":
    main()
