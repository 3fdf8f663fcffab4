"""The paper's equations as plain float64 loops: what every result of the package is compared with.

Nothing of the package is imported here and nothing is clever: pairs are visited one by one. A sample with a soft label is
a set of parts, one per class, each with its share of mass; a sample with a hard label has one part. All sums run over parts,
so the pair weight 1 − t_x·t_z is never written down: it comes out.

Shapes: B samples, C classes, D feature width; ``mass`` (B, C) says how much of each sample counts for each class.
"""

import math
from decimal import Decimal, localcontext

import torch


def nsf(logits):
    """Eq. 3, one row."""
    sigmoid = 1 / (1 + torch.exp(-logits))
    return sigmoid / sigmoid.sum()


def softmax(logits):
    """Eq. 4, one row."""
    return torch.exp(logits) / torch.exp(logits).sum()


def log_nsf_decimal(logits):
    """Eq. 3 with 60 digits, so that σ(−1000) is an ordinary number."""
    with localcontext() as context:
        context.prec = 60
        sigmoid = [1 / (1 + (-Decimal(a)).exp()) for a in logits]
        return [float((s / sum(sigmoid)).ln()) for s in sigmoid]


def points(features, center=None, temperature=0.2, simplex=nsf):
    """Lines 2–4 of Algorithm 1: centre, normalise, temper, map; a list of B rows."""
    rows = []
    for feature in features:
        z = feature if center is None else feature - center
        rows.append(simplex(z / (torch.sqrt((z * z).sum()) * temperature)))
    return rows


def kl(p, q):
    """Eq. 1."""
    return (p * torch.log(p / q)).sum()


def cross_entropy(p, q):
    """Eq. 2, with the minus that the print lacks."""
    return -(p * torch.log(q)).sum()


def one_hot(targets, num_classes):
    return torch.tensor([[float(y == v) for v in range(num_classes)] for y in targets.tolist()], dtype=torch.float64)


def label_mass(targets, num_classes, weight=None, prior=None, ignore_index=-100):
    """How much of each sample counts for each class (B, C), and what a mean over samples divides by."""
    soft = targets.is_floating_point()
    mass = targets.double().clone() if soft else one_hot(targets, num_classes)
    if not soft:
        for x, y in enumerate(targets.tolist()):
            if y == ignore_index:
                mass[x] = 0
    size = mass.sum()
    if prior is not None:
        counts = mass.sum(dim=0)
        for y in range(num_classes):
            if counts[y] > 0:
                mass[:, y] *= prior[y] * size / counts[y]
    if weight is not None:
        mass = mass * weight
    # nn.CrossEntropyLoss divides by the sum of the weights for class indices, by the batch size for soft labels.
    return mass, size if soft and weight is not None else mass.sum()


def parts(mass):
    """(sample, class, mass) of everything that counts."""
    return [(x, y, mass[x, y]) for x in range(mass.shape[0]) for y in range(mass.shape[1]) if mass[x, y] != 0]


def class_means(p, mass):
    """s^y (Eq. 6); ``None`` for an absent class."""
    means = []
    for y in range(mass.shape[1]):
        count = mass[:, y].sum()
        means.append(sum(mass[x, y] * p[x] for x in range(len(p))) / count if count > 0 else None)
    return means


def cmi(p, mass):
    """Eq. 5."""
    s = class_means(p, mass)
    return sum(m * kl(p[x], s[y]) for x, y, m in parts(mass)) / mass.sum()


def gamma(p, mass):
    """Eq. 7, by pairs."""
    s = class_means(p, mass)
    total = torch.zeros((), dtype=torch.float64)
    for _, y, m in parts(mass):
        for z, v, n in parts(mass):
            if y != v:
                total = total + m * n * kl(s[y], p[z])
    return total / mass.sum() ** 2


def theorem1(p, mass, q, printed=False):
    """Numerator and denominator of Theorem 1's objective; ``printed`` takes q^{c_z} where the proof needs q^{c_x}."""
    size = mass.sum()
    numerator = sum(m * kl(p[x], q[y]) for x, y, m in parts(mass)) / size
    denominator = torch.zeros((), dtype=torch.float64)
    for x, y, m in parts(mass):
        for z, v, n in parts(mass):
            if y != v:
                other = q[v] if printed else q[y]
                denominator = denominator + m * n * (cross_entropy(p[x], p[z]) - cross_entropy(p[x], other))
    return numerator, denominator / size**2


def centroid(p, mass, q, prior=None):
    """Numerator, and Γ(q) = (1/B²) Σ_x Σ_{v≠y} n_v D(q^v‖p_x), or with π_v in place of n_v/B."""
    size = mass.sum()
    share = mass.sum(dim=0) / size if prior is None else prior
    numerator = sum(m * kl(p[x], q[y]) for x, y, m in parts(mass)) / size
    denominator = torch.zeros((), dtype=torch.float64)
    for x, y, m in parts(mass):
        for v in range(mass.shape[1]):
            if v != y:
                denominator = denominator + m * share[v] * kl(q[v], p[x])
    return numerator, denominator / size


def released(p, mass, q):
    """Per sample Σ_y t_y D_y / SEP_y, SEP_y = (1/C) Σ_{v≠y} D(q^v‖p_x)."""
    num_classes = len(q)
    losses = []
    for x, row in enumerate(mass):
        loss = torch.zeros((), dtype=torch.float64)
        for y in range(num_classes):
            separation = sum(kl(q[v], p[x]) for v in range(num_classes) if v != y) / num_classes
            loss = loss + row[y] * kl(p[x], q[y]) / separation
        losses.append(loss)
    return torch.stack(losses)


def harmonic(p, mass, q, exponent):
    """Per sample Σ_y t_y ln(1 + Σ_{v≠y} (D_y/D_v)^k)."""
    losses = []
    for x, row in enumerate(mass):
        divergence = [kl(p[x], q_v) for q_v in q]
        loss = torch.zeros((), dtype=torch.float64)
        for y, own in enumerate(divergence):
            ratios = sum((own / other) ** exponent for v, other in enumerate(divergence) if v != y)
            loss = loss + row[y] * torch.log(1 + ratios)
        losses.append(loss)
    return torch.stack(losses)


def rivals(p, mass, q, exponent, labels):
    """Per sample ⅓ Σ_y t_y [ln(1 + Σ_{v≠y} (D_xy/D_xv)^k) + ln(1 + (C−1) mean_{x' not of y} (D_xy/D_x'y)^k)
    + ln(1 + (C−1) mean_{x' of other classes} (D_xy/D(p_x‖p_x'))^(k/2))].

    ``labels`` are the shares of the classes in each sample without any weight: one that does not count has none. A mean has one
    rival at least below it.
    """
    own = harmonic(p, mass, q, exponent)
    losses = []
    for x, row in enumerate(mass):
        loss = torch.zeros((), dtype=torch.float64)
        counted = [(share, p[z]) for z, share in enumerate(labels) if share.sum() > 0]
        apart = [(float((labels[x] - share).abs().sum()) / 2, kl(p[x], other)) for share, other in counted]
        for y in range(len(q)):
            choosing = [(1 - float(share[y]), kl(other, q[y])) for share, other in counted]
            for rivals, power in ((choosing, exponent), (apart, exponent / 2)):
                rivals = [(part, divergence) for part, divergence in rivals if part > 1e-12]
                ratios = sum(part * (kl(p[x], q[y]) / divergence) ** power for part, divergence in rivals)
                if rivals:
                    mean = ratios / max(1, sum(part for part, _ in rivals))
                    loss = loss + row[y] * torch.log(1 + (len(q) - 1) * mean)
        losses.append(loss)
    return (own + torch.stack(losses)) / 3


def loss(
    objective,
    features,
    targets,
    xi,
    *,
    center=None,
    temperature=0.2,
    simplex=nsf,
    weight=None,
    prior=None,
    ignore_index=-100,
    reduction="mean",
):
    """The whole loss of one batch as a function of features and ξ."""
    num_classes = len(xi)
    p = points(features, center, temperature, simplex)
    q = [simplex(row) for row in xi]
    mass, size = label_mass(targets, num_classes, weight, prior, ignore_index)
    if objective == "theorem1":
        numerator, denominator = theorem1(p, mass, q)
        return numerator / denominator
    if objective == "centroid":
        numerator, denominator = centroid(p, mass, q, prior)
        return numerator / denominator
    exponent = 8
    if objective == "released":
        losses = released(p, mass, q)
    elif objective == "harmonic":
        losses = harmonic(p, mass, q, exponent)
    else:
        labels, _ = label_mass(targets, num_classes, None, None, ignore_index)
        losses = rivals(p, mass, q, exponent, labels)
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / size}[reduction]


def batch_center(features, targets, ignore_index=-100):
    """The mean of the samples that count: the centre of a first training step."""
    rows = [f for f, y in zip(features, targets, strict=True) if y.ndim or y != ignore_index]
    return (sum(rows) / len(rows)).detach()


LN_2 = math.log(2)
