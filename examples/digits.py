"""Cross-entropy and NCMI on scikit-learn's digits: the same small network, one table, one picture.

1,797 real images of 8×8 pixels, ten classes. Digits are easy: this shows how NCMI is used and what it measures, not which
loss is better. Run it with ``make demo``, or ``python examples/digits.py --help``. The training loop is ``train``: copy it.
"""

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import matplotlib
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

from ncmi import CentroidClassifier, LinearProbe, NCMILoss, NCMIMetric, parameter_groups

NUM_CLASSES, NUM_FEATURES, BATCH_SIZE = 10, 64, 50

# Chosen once: the best mean validation accuracy over 5 seeds and 30 epochs among the rates that --search prints.
LEARNING_RATES = {"CE": 0.03, "NCMI": 0.03}
SEARCHED = (0.01, 0.03, 0.1, 0.3, 1.0)


class Subset(NamedTuple):
    """Images (N, 1, 8, 8) with values in [0, 1], and their labels (N,)."""

    images: Tensor
    targets: Tensor


class Run(NamedTuple):
    """What one training run leaves: its curves (one value an epoch), its numbers on the test set, its duration."""

    curves: dict[str, list[float]]
    results: dict[str, float]
    seconds: float


def load() -> tuple[Subset, Subset, Subset]:
    """Training (1,000), validation (297) and test (500) images; stratified, and the same split for every run."""
    pixels, labels = load_digits(return_X_y=True)
    images = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    targets = torch.tensor(labels)
    rest, test = train_test_split(range(len(targets)), test_size=500, stratify=targets.tolist(), random_state=0)
    train, validation = train_test_split(rest, test_size=297, stratify=targets[rest].tolist(), random_state=0)
    return tuple(Subset(images[index], targets[index]) for index in (train, validation, test))  # pyright: ignore[reportReturnType]


def train(name: str, lr: float, seed: int, epochs: int, data: tuple[Subset, Subset, Subset]) -> Run:
    """Train one network with the loss ``name`` and measure it."""
    training, validation, test = data
    torch.manual_seed(seed)
    shuffling = torch.Generator().manual_seed(seed)  # its own stream: both losses see the same batches
    network = nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 128),
        nn.BatchNorm1d(128),
        nn.ReLU(),
        nn.Linear(128, NUM_FEATURES),
        nn.BatchNorm1d(NUM_FEATURES),
        nn.ReLU(),
    )
    if name == "CE":
        head, criterion = nn.Linear(NUM_FEATURES, NUM_CLASSES), nn.CrossEntropyLoss()
    else:
        head, criterion = nn.Identity(), NCMILoss(NUM_CLASSES, NUM_FEATURES)  # the features go to the loss as they are
    model = nn.Sequential(network, head)
    # For CE this is one ordinary group. For NCMI the centroids get a group of their own: rate 1, no weight decay.
    optimizer = torch.optim.SGD(parameter_groups(model, criterion, lr=lr, weight_decay=5e-4), momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)

    curves: dict[str, list[float]] = {"loss": [], "accuracy": [], "ncmi": []}
    seconds = 0.0
    for _ in range(epochs):
        started = time.perf_counter()
        model.train()
        criterion.train()
        total = 0.0
        for batch in torch.randperm(len(training.targets), generator=shuffling).split(BATCH_SIZE):
            loss = criterion(model(training.images[batch]), training.targets[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        schedule.step()
        seconds += time.perf_counter() - started

        model.eval()
        criterion.eval()
        results = evaluate(network, head, criterion, training, validation)
        curves["loss"].append(total / len(training.targets))
        curves["accuracy"].append(results["own head"] if name == "CE" else results["CC, learned q"])
        curves["ncmi"].append(results["NCMI"])
    return Run(curves, evaluate(network, head, criterion, training, test, probe=True), seconds)


@torch.no_grad()
def evaluate(
    network: nn.Module, head: nn.Module, criterion: nn.Module, training: Subset, held_out: Subset, probe: bool = False
) -> dict[str, float]:
    """Accuracies (%) by every decision the run allows, and CMI, Γ and NCMI, of ``held_out``."""
    features, targets = network(held_out.images), held_out.targets
    training_features = network(training.images)
    # One map for both losses: τ = 0.2, centred on the mean of the whole training set as the network now sees it.
    ruler = NCMILoss(NUM_CLASSES, NUM_FEATURES).eval()
    ruler.start_from_class_means(training_features, training.targets)

    classifier = CentroidClassifier.from_class_means(ruler, [(training_features, training.targets)])
    accuracy = {"CC, class means": classifier.score(features, targets)}
    if isinstance(criterion, NCMILoss):
        accuracy["CC, learned q"] = CentroidClassifier.from_loss(criterion).score(features, targets)
    else:
        accuracy["own head"] = (head(features).argmax(dim=1) == targets).float().mean().item()
    if probe:
        linear = LinearProbe(NUM_CLASSES, NUM_FEATURES).fit(training_features, training.targets)
        accuracy["LP"] = linear.score(features, targets)
    results = {decision: 100 * value for decision, value in accuracy.items()}

    metric = NCMIMetric.from_loss(ruler)
    metric.update(features, targets)
    terms = metric.compute()
    return results | {"CMI": float(terms["cmi"]), "Γ": float(terms["gamma"]), "NCMI": float(terms["ncmi"])}


def table(runs: dict[str, list[Run]]) -> str:
    """One row a loss, mean ± standard deviation over its runs."""
    digits = {"CC, learned q": 2, "CC, class means": 2, "LP": 2, "own head": 2, "CMI": 4, "Γ": 4, "NCMI": 3}

    def cell(values: list[float], places: int) -> str:
        if not values:
            return "–"
        sample = torch.tensor(values, dtype=torch.float64)
        deviation = f" ± {sample.std():.{places}f}" if len(values) > 1 else ""
        return f"{sample.mean():.{places}f}{deviation}"

    rows = [["loss", *digits, "seconds"]]
    for name, of_loss in runs.items():
        values = [[run.results[column] for run in of_loss if column in run.results] for column in digits]
        cells = [cell(column, places) for column, places in zip(values, digits.values(), strict=True)]
        rows.append([name, *cells, cell([run.seconds for run in of_loss], 1)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def picture(runs: dict[str, list[Run]], folder: Path) -> Path:
    """Training loss, validation accuracy and validation NCMI over the epochs, as digits.png and digits.svg."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = (
        ("loss", "training loss", "each loss in its own unit", "log"),
        ("accuracy", "validation accuracy, %", "CE: own head; NCMI: learned centroids", "linear"),
        ("ncmi", "validation NCMI = CMI / Γ", "same map for both; small: tight and far apart", "linear"),
    )
    colors = {"CE": "#c8553d", "NCMI": "#1f5f8b"}
    with plt.rc_context(
        {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "ncmi"}
    ):
        figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained", gridspec_kw={"wspace": 0.06})
        for axis, (key, label, note, scale) in zip(axes, panels, strict=True):
            for name, of_loss in runs.items():
                values = torch.tensor([run.curves[key] for run in of_loss], dtype=torch.float64)
                epochs = range(1, values.shape[1] + 1)
                axis.plot(epochs, values.mean(dim=0), color=colors[name], label=name, linewidth=2)
                low, high = values.amin(dim=0), values.amax(dim=0)
                axis.fill_between(epochs, low, high, color=colors[name], alpha=0.18, linewidth=0)
            axis.set(xlabel="epoch", ylabel=label, yscale=scale)
            axis.set_title(note, fontsize=9, color="0.35", loc="left")
            axis.grid(color="0.92", zorder=0)
            axis.xaxis.get_major_locator().set_params(integer=True)
        axes[1].set_ylim(top=100)
        axes[2].set_ylim(bottom=0)
        axes[0].legend(frameon=False, title=f"mean and range, n = {len(next(iter(runs.values())))}")
        figure.suptitle("scikit-learn digits, the same network trained with cross-entropy and with NCMI", fontsize=12)
        folder.mkdir(parents=True, exist_ok=True)
        for ending in ("svg", "png"):
            figure.savefig(folder / f"digits.{ending}", dpi=150)
        plt.close(figure)
    return folder / "digits.png"


def search(epochs: int, seeds: int, data: tuple[Subset, Subset, Subset]) -> None:
    """Print the validation accuracy at the last epoch for each loss and learning rate."""
    for name in LEARNING_RATES:
        for lr in SEARCHED:
            last = [train(name, lr, seed, epochs, data).curves["accuracy"][-1] for seed in range(seeds)]
            print(f"{name:>4}  lr {lr:<5} validation accuracy {sum(last) / seeds:.2f} % (n = {seeds})", flush=True)


def main() -> None:
    """Train, print the table, write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=5, help="training runs for each loss")
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder of the picture")
    parser.add_argument("--search", action="store_true", help="print how the learning rates were chosen, and stop")
    options = parser.parse_args()
    torch.set_num_threads(1)  # the network is too small for two
    data = load()
    if options.search:
        search(options.epochs, options.seeds, data)
        return

    runs: dict[str, list[Run]] = {}
    for name, lr in LEARNING_RATES.items():
        print(f"{name}: {options.seeds} runs of {options.epochs} epochs at learning rate {lr}", flush=True)
        runs[name] = [train(name, lr, seed, options.epochs, data) for seed in range(options.seeds)]
    spread = f", mean ± standard deviation of {options.seeds} seeds" if options.seeds > 1 else ", one seed"
    print(f"\nTest set of {len(data[2].targets)} images, last epoch{spread}; accuracies in %\n")
    print(table(runs))
    print(
        "\nCC        centroid decision: the class whose centroid q is nearest, by KL divergence."
        "\n          learned q: the loss's own centroids; class means: taken from the training set after training."
        "\nLP        linear probe: a linear classifier fitted to the frozen features."
        "\nown head  the linear layer that cross-entropy trained with the network; NCMI has none."
        "\nCMI       how far a class's outputs scatter; Γ: how far apart the classes are; NCMI = CMI / Γ."
        "\n          The same map from features to distributions for both losses: τ = 0.2, centred on the training set."
        "\nseconds   training time of one run, without evaluation."
    )
    print(f"\nCurves of both: {picture(runs, options.out)} (and .svg)")


if __name__ == "__main__":
    main()
