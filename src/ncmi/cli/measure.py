"""Measure CMI, Γ, NCMI and the nearest-centroid accuracy of a network, or of features in a file.

A network: ncmi measure --model resnet20 --weights resnet20.pt --data cifar10 --part test
Features:  ncmi measure --features features.npz
"""

import json
from typing import Any


def add_arguments(parser: Any) -> None:
    """Arguments of the command."""
    parser.add_argument("--features", type=str, help="a file of features and targets: .npz, .safetensors, .pt or .csv")
    parser.add_argument("--test-features", type=str, help="a second file, decided by the class means of the first")
    parser.add_argument("--features-key", type=str, default="features", help="name of the features in the files")
    parser.add_argument("--targets-key", type=str, default="targets", help="name of the targets in the files")
    parser.add_argument("--model", type=str, help="a network by name, timm:<name> included")
    parser.add_argument("--model-options", type=dict[str, Any], default={}, help="its options, such as '{stem: cifar}'")
    parser.add_argument("--weights", type=str, help="its weights: ours, torchvision's or timm's")
    parser.add_argument("--data", type=str, help="the data set")
    parser.add_argument("--data-dir", type=str, help="where its files are")
    parser.add_argument(
        "--part",
        type=str,
        default="test",
        choices=["train", "test", "both"],
        help="both: test by the class means of train",
    )
    parser.add_argument(
        "--statistics",
        type=str,
        help="whose mean and deviation the network was trained with, such as imagenet (by default the data set's own)",
    )
    parser.add_argument("--resolution", type=int, default=224, help="pixels of a side, for folders of images")
    parser.add_argument("--simplex", type=str, default="nsf", choices=["nsf", "softmax"], help="the map to the simplex")
    parser.add_argument("--temperature", type=float, default=0.2, help="its temperature")
    parser.add_argument("--center", type=str, default="mean", choices=["mean", "none"], help="what to subtract first")
    parser.add_argument("--device", type=str, help="such as cpu or cuda:1 (by default a GPU if there is one)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: Any) -> int:
    """Print the measurement."""
    if (arguments.features is None) == (arguments.model is None):
        raise ValueError("name either --features FILE, or --model NAME with --weights FILE and --data NAME.")
    from ncmi.evaluation import measure, read_features

    head_accuracy = None
    if arguments.features is not None:
        names = [file for file in (arguments.features, arguments.test_features) if file is not None]
        parts = [read_features(file, arguments.features_key, arguments.targets_key) for file in names]
    else:
        names, parts, head_accuracy = _network_features(arguments)
    settings = {name: getattr(arguments, name) for name in ("simplex", "temperature", "center")}
    measured = [measure(part, *(parts[:1] if place else ()), **settings) for place, part in enumerate(parts)]
    if arguments.json:
        rows = [{"name": name, **measurement._asdict()} for name, measurement in zip(names, measured, strict=True)]
        print(json.dumps({"measured": rows, "head_accuracy": head_accuracy}))
        return 0
    for name, measurement in zip(names, measured, strict=True):
        ratio = "undefined (Γ is 0)" if measurement.ncmi is None else f"{measurement.ncmi:.6g}"
        print(
            f"{name}: {measurement.samples} samples, CMI {measurement.cmi:.6g}, Γ {measurement.gamma:.6g}, NCMI {ratio}, "
            f"nearest class mean {100 * measurement.centroid_accuracy:.2f} %"
        )
    print(f"Centre and class means are those of {names[0]}.")
    if head_accuracy is not None:
        print(f"{names[-1]}: the network's own head {100 * head_accuracy:.2f} %")
    return 0


def _network_features(arguments: Any) -> tuple[list[str], list[Any], float | None]:
    """A data set's parts by name, their features, and the accuracy of the network's own head if the weights have one."""
    from ncmi.checks import choose
    from ncmi.data import STATISTICS, CenterCrop, FolderLoader, FolderSet, Normalize, TensorLoader, load_data
    from ncmi.evaluation import collect
    from ncmi.models import create_model, load_weights
    from ncmi.training.processes import join_processes

    for name in ("weights", "data"):
        if getattr(arguments, name) is None:
            raise ValueError(f"--model needs --{name} too.")
    data = load_data(arguments.data, arguments.data_dir)
    if arguments.statistics is not None:
        choose("measure", "--statistics", arguments.statistics, STATISTICS)
    normalize = Normalize(*(STATISTICS[arguments.statistics] if arguments.statistics else data.statistics))
    network = create_model(arguments.model, **arguments.model_options)
    has_head = bool(load_weights(network, arguments.weights))
    names, parts = ["train", "test"] if arguments.part == "both" else [arguments.part], []
    with join_processes(arguments.device) as processes:
        network.to(processes.device)
        for name in names:
            part = data.train if name == "train" else data.test
            if isinstance(part, FolderSet):
                crop = CenterCrop(arguments.resolution)
                loader: Any = FolderLoader(part, crop, normalize, 256, shuffle=False, device=processes.device)
            else:
                loader = TensorLoader(part, normalize, 500, shuffle=False, device=processes.device)
            parts.append(collect(network, loader))
    if not has_head:
        return names, parts, None
    whole = create_model(arguments.model, num_classes=data.num_classes, **arguments.model_options)
    if load_weights(whole, arguments.weights):
        return names, parts, None
    decided = whole.get_classifier()(parts[-1].features).argmax(dim=1)  # pyright: ignore[reportCallIssue]
    return names, parts, float((decided == parts[-1].targets).float().mean())
