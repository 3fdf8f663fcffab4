"""The baselines' formulas as plain float64 loops: what every result of ``ncmi.baselines`` is compared with.

Nothing of the package is imported here and nothing is clever: pairs are visited one by one, probabilities are formed before
their logarithms. Everything is differentiable, so gradients are compared too.

Shapes: B samples, C classes, D feature width, V views.
"""

import math

import torch


def softmax(row):
    return torch.exp(row) / torch.exp(row).sum()


def ce(row, y):
    return -torch.log(softmax(row)[y])


def focal(row, y, gamma=2.0, alpha=None):
    p = softmax(row)[y]
    return -(1.0 if alpha is None else alpha[y]) * (1 - p) ** gamma * torch.log(p)


def poly1(row, y, epsilon=2.0):
    return ce(row, y) + epsilon * (1 - softmax(row)[y])


def squentropy(row, y):
    return ce(row, y) + sum(row[j] ** 2 for j in range(len(row)) if j != y) / (len(row) - 1)


def square(row, y, true_class_weight=1.0, target_value=1.0):
    others = sum(row[j] ** 2 for j in range(len(row)) if j != y)
    return (true_class_weight * (row[y] - target_value) ** 2 + others) / len(row)


def anticlass(row, y, gamma=1.0, ce_weight=1.0, epsilon=0.0):
    r, others = softmax(-row), len(row) - 1
    one_cold = sum(torch.log(others * r[j] + epsilon) for j in range(len(row)) if j != y)
    return ce_weight * ce(row, y) - gamma * one_cold / others


def _weights(weight, num_classes):
    return [1.0] * num_classes if weight is None else weight.tolist()


def over_samples(rule, rows, targets, num_classes, *, weight=None, ignore_index=-100, reduction="mean"):
    """Σ_y t_y·w_y·rule(row, y) of each sample; a mean divides by Σ w_y, or by B for soft labels."""
    weight, losses, total = _weights(weight, num_classes), [], 0.0
    for row, target in zip(rows, targets, strict=True):
        if targets.is_floating_point():
            losses.append(sum(target[y] * weight[y] * rule(row, y) for y in range(num_classes)))
            total += 1
        elif int(target) == ignore_index:
            losses.append(torch.zeros((), dtype=torch.float64))
        else:
            losses.append(weight[int(target)] * rule(row, int(target)))
            total += weight[int(target)]
    losses = torch.stack(losses)
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / total}[reduction]


def label_smoothing(logits, targets, *, smoothing=0.1, weight=None, ignore_index=-100, reduction="mean"):
    """Σ_j w_j·s_j·(−ln p_j) with smoothed targets s; a mean divides by Σ w_y, or by B for soft labels."""
    num_classes = logits.shape[1]
    weight, losses, total = _weights(weight, num_classes), [], 0.0
    for row, target in zip(logits, targets, strict=True):
        soft = targets.is_floating_point()
        if not soft and int(target) == ignore_index:
            losses.append(torch.zeros((), dtype=torch.float64))
            continue
        own = target if soft else [float(j == int(target)) for j in range(num_classes)]
        smoothed = [(1 - smoothing) * own[j] + smoothing / num_classes for j in range(num_classes)]
        losses.append(sum(weight[j] * smoothed[j] * ce(row, j) for j in range(num_classes)))
        total += 1.0 if soft else weight[int(target)]
    losses = torch.stack(losses)
    return {"none": losses, "sum": losses.sum(), "mean": losses.sum() / total}[reduction]


def distance(first, second):
    return sum((a - b) ** 2 for a, b in zip(first, second, strict=True))


def center(logits, features, targets, centers, *, center_weight=0.003, **settings):
    def rule(row, y):
        return ce(row[0], y) + center_weight / 2 * distance(row[1], centers[y])

    return over_samples(rule, list(zip(logits, features, strict=True)), targets, len(centers), **settings)


def moved_centers(features, targets, centers, center_lr=0.5, weight=None, ignore_index=-100):
    """The centres after the step c − α Σ(c − f)/(1 + n)."""
    weight, moved = _weights(weight, len(centers)), centers.clone()
    for j in range(len(centers)):
        rows = [f for f, y in zip(features, targets, strict=True) if int(y) == j != ignore_index]
        pull = sum((weight[j] * (centers[j] - f) for f in rows), torch.zeros_like(centers[j]))
        moved[j] = centers[j] - center_lr * pull / (1 + weight[j] * len(rows))
    return moved


def contrastive_center(logits, features, targets, centers, *, center_weight=1.0, delta=1.0, **settings):
    def rule(row, y):
        others = sum(distance(row[1], centers[j]) for j in range(len(centers)) if j != y)
        return ce(row[0], y) + center_weight / 2 * distance(row[1], centers[y]) / (others + delta)

    return over_samples(rule, list(zip(logits, features, strict=True)), targets, len(centers), **settings)


def unit(row):
    return row / torch.sqrt((row * row).sum())


def opl(logits, features, targets, *, opl_weight=1.0, gamma=0.5, negative="abs_mean", ignore_index=-100):
    keep = [x for x, y in enumerate(targets.tolist()) if y != ignore_index]
    f = [unit(row) for row in features]
    zero = torch.zeros((), dtype=torch.float64)
    same, different = [], []
    for i in keep:
        for j in keep:
            if i != j:
                (same if targets[i] == targets[j] else different).append((f[i] * f[j]).sum())
    s = sum(same) / len(same) if same else zero
    if negative == "mean_abs":
        different = [product.abs() for product in different]
    d = sum(different) / len(different) if different else zero
    d = d.abs() if negative == "abs_mean" else d
    cross_entropy = sum(ce(logits[x], int(targets[x])) for x in keep) / len(keep)
    return cross_entropy + opl_weight * ((1 - s) + gamma * d)


def supcon(
    projections,
    targets,
    *,
    temperature=0.1,
    scale="none",
    base_temperature=0.07,
    summation="outside",
    ignore_index=-100,
):
    vectors = [
        (unit(view), int(y))
        for sample, y in zip(projections, targets, strict=True)
        for view in sample
        if int(y) != ignore_index
    ]
    losses = []
    for i, (v, y) in enumerate(vectors):
        others = [(u, z) for a, (u, z) in enumerate(vectors) if a != i]
        denominator = sum(torch.exp((v * u).sum() / temperature) for u, _ in others)
        ratios = [torch.exp((v * u).sum() / temperature) / denominator for u, z in others if z == y]
        if summation == "outside":
            losses.append(-sum(torch.log(ratio) for ratio in ratios) / len(ratios))
        else:
            losses.append(-torch.log(sum(ratios) / len(ratios)))
    factor = {"none": 1.0, "temperature": temperature, "base_temperature": temperature / base_temperature}[scale]
    return factor * sum(losses) / len(losses)


def cmic(
    logits,
    targets,
    centroids,
    updates=None,
    *,
    cmi_weight,
    separation_weight,
    momentum=0.9999,
    detach_log=False,
    normalize="batch_squared",
    smallest_prob=1e-25,
    ignore_index=-100,
):
    """Value, and the centroids after the step, which weigh as ``updates`` (C,) earlier batches before it."""
    num_classes = logits.shape[1]
    if targets.is_floating_point():
        mass = targets.tolist()
    else:
        mass = [[float(y == c) for c in range(num_classes)] for y in targets.tolist()]
        mass = [[0.0] * num_classes if y == ignore_index else m for y, m in zip(targets.tolist(), mass, strict=True)]
    keep = [x for x, m in enumerate(mass) if sum(m) > 0]
    p = [softmax(row) for row in logits]
    value, pairs, separation = 0.0, 0.0, 0.0
    for x in keep:
        for y in range(num_classes):
            divergence = (p[x] * torch.log(p[x] / centroids[y])).sum()
            value = value + mass[x][y] * (ce(logits[x], y) + cmi_weight * divergence) / len(keep)
    for x in keep:
        for u in keep:
            if u == x:
                continue
            differ = sum(mass[x][y] * mass[u][v] for y in range(num_classes) for v in range(num_classes) if y != v)
            log_u = torch.log(torch.clamp(p[u], min=smallest_prob))
            log_u = log_u.detach() if detach_log else log_u
            separation = separation - differ * (p[x] * log_u).sum()
            pairs += differ
    separation = separation / (len(keep) ** 2 if normalize == "batch_squared" else max(pairs, math.ulp(0)))
    moved = centroids.clone()
    for c in range(num_classes):
        count = sum(mass[x][c] for x in keep)
        if count:
            mean = sum(mass[x][c] * p[x].detach() for x in keep) / count
            past = 0.0 if updates is None else momentum * float(updates[c])
            moved[c] = (past * centroids[c] + mean) / (past + 1)
    return value - separation_weight * separation, moved
