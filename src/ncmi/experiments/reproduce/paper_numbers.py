"""The paper's own numbers, as printed (arXiv:2601.02543), by the label of their table in its source."""

# Tab:CIFAR100Result: top-1 in %, three seeds. The keys are ours: (loss, decision), then the network.
CIFAR100: dict[tuple[str, str], dict[str, float]] = {
    ("ce", "own"): {"resnet18": 75.44, "resnet34": 76.42, "resnet50": 76.96, "resnet101": 77.39},
    ("label-smoothing", "own"): {"resnet18": 75.92, "resnet34": 76.77, "resnet50": 77.06, "resnet101": 77.37},
    ("anticlass", "own"): {"resnet18": 76.28, "resnet34": 76.31, "resnet50": 76.30, "resnet101": 76.69},
    ("squentropy", "own"): {"resnet18": 75.71, "resnet34": 76.62, "resnet50": 77.15, "resnet101": 77.74},
    ("square", "own"): {"resnet18": 75.10, "resnet34": 76.62, "resnet50": 77.15, "resnet101": 77.74},
    ("poly1", "own"): {"resnet18": 75.59, "resnet34": 76.87, "resnet50": 76.46, "resnet101": 77.77},
    ("supcon", "linear probe"): {"resnet18": 73.00, "resnet34": 74.53, "resnet50": 74.88, "resnet101": 75.77},
    ("supcon, large batch", "linear probe"): {"resnet50": 77.04},
    ("focal", "own"): {"resnet18": 76.34, "resnet34": 76.62, "resnet50": 77.32, "resnet101": 77.76},
    ("ncmi", "own"): {"resnet18": 76.45, "resnet34": 76.97, "resnet50": 77.50, "resnet101": 77.81},
    ("ncmi", "linear probe"): {"resnet18": 76.94, "resnet34": 77.54, "resnet50": 77.76, "resnet101": 78.23},
}

# Tab:ImageNet: top-1 and top-5 in %.
IMAGENET: dict[tuple[str, str], dict[str, tuple[float, float]]] = {
    ("ce", "own"): {"resnet50": (76.24, 92.42), "resnet101": (78.42, 95.35)},
    ("label-smoothing", "own"): {"resnet50": (78.37, 94.83), "resnet101": (79.10, 96.46)},
    ("focal", "own"): {"resnet50": (78.11, 94.64), "resnet101": (79.75, 94.66)},
    ("supcon", "linear probe"): {"resnet50": (63.78, 86.60), "resnet101": (67.43, 90.24)},
    ("supcon, large batch", "linear probe"): {"resnet50": (78.70, 94.30), "resnet101": (79.33, 94.52)},
    ("ncmi", "own"): {"resnet50": (79.01, 95.34), "resnet101": (79.97, 96.64)},
    ("ncmi", "linear probe"): {"resnet50": (78.92, 96.23), "resnet101": (79.83, 96.55)},
}

# Tab:WSIresults: F1 and AUC in % by linear probe; first with cross-entropy, then with NCMI.
WSI: dict[str, dict[tuple[str, str], tuple[float, float]]] = {
    "camelyon17": {
        ("abmil", "ce"): (52.2, 85.3),
        ("abmil", "ncmi"): (56.7, 89.2),
        ("transmil", "ce"): (55.4, 79.2),
        ("transmil", "ncmi"): (58.2, 85.3),
        ("aem", "ce"): (64.7, 88.7),
        ("aem", "ncmi"): (66.3, 90.7),
        ("asmil", "ce"): (68.9, 89.8),
        ("asmil", "ncmi"): (71.0, 91.4),
    },
    "bracs": {
        ("abmil", "ce"): (68.0, 86.6),
        ("abmil", "ncmi"): (70.1, 87.2),
        ("transmil", "ce"): (63.1, 84.1),
        ("transmil", "ncmi"): (66.2, 87.8),
        ("aem", "ce"): (74.2, 90.5),
        ("aem", "ncmi"): (77.9, 91.8),
        ("asmil", "ce"): (78.1, 91.4),
        ("asmil", "ncmi"): (82.4, 93.6),
    },
}

# Tab:ablation: top-1 in %, by (simplex, center); ResNet-18 on CIFAR-100, as its first number is that of Tab:CIFAR100Result.
ABLATION: dict[tuple[str, str], float] = {
    ("nsf", "ema"): 76.45,
    ("nsf", "none"): 74.9,
    ("softmax", "ema"): 1.72,
    ("softmax", "none"): 5.64,
}
