"""Bag models in float64 loops and padded tensors, written from their equations."""

import math

import torch


def linear(layer, x):
    """W x + b for one vector, without any matrix product of torch."""
    rows = [sum(w * v for w, v in zip(row.tolist(), x, strict=True)) for row in layer.weight.detach()]
    return rows if layer.bias is None else [r + b for r, b in zip(rows, layer.bias.tolist(), strict=True)]


def layer_norm(layer, x):
    mean = sum(x) / len(x)
    variance = sum((v - mean) ** 2 for v in x) / len(x)
    scale, shift = layer.weight.tolist(), layer.bias.tolist()
    return [s * (v - mean) / math.sqrt(variance + layer.eps) + b for v, s, b in zip(x, scale, shift, strict=True)]


def relu(x):
    return [max(v, 0.0) for v in x]


def softmax(x):
    top = max(x)
    total = sum(math.exp(v - top) for v in x)
    return [math.exp(v - top) / total for v in x]


def dot(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True))


def query_attention(block, rows):
    """Answer (D,) and logits (N, H) of one learned query, with keys and values for every row."""
    heads = block.num_heads
    query = linear(block.query_projection, block.query.tolist())
    keys = [linear(block.key_projection, row) for row in rows]
    values = [linear(block.value_projection, row) for row in rows]
    width = len(query) // heads
    logits, answer = [[] for _ in rows], []
    for head in range(heads):
        part = slice(head * width, (head + 1) * width)
        scores = [dot(query[part], key[part]) / math.sqrt(width) for key in keys]
        weights = softmax(scores)
        for place, score in enumerate(scores):
            logits[place].append(score)
        answer += [dot(weights, [value[part][e] for value in values]) for e in range(width)]
    return layer_norm(block.norm, linear(block.output_projection, answer)), logits


def masked_weights(logits, mask):
    """Softmax over the instances (G, N, H) that ``mask`` (G, N) is true at; zero elsewhere."""
    return logits.masked_fill(~mask.unsqueeze(-1), -math.inf).softmax(dim=1)


def padded(bags):
    """(G, N, F) with random numbers behind the instances of the shorter bags, and the mask (G, N)."""
    longest = max(len(bag) for bag in bags)
    rows = torch.stack(
        [torch.cat([bag, torch.randn(longest - len(bag), bag.shape[1], dtype=bag.dtype)]) for bag in bags]
    )
    return rows, torch.tensor([[place < len(bag) for place in range(longest)] for bag in bags])


def padded_query_attention(block, rows, mask):
    """Answers (G, D) and logits (G, N, H) on padded rows (G, N, D): the usual keys and values, and a mask."""
    split = (block.num_heads, -1)
    query = block.query_projection(block.query).unflatten(0, split)
    keys, values = block.key_projection(rows).unflatten(-1, split), block.value_projection(rows).unflatten(-1, split)
    logits = (keys * query).sum(dim=-1) / math.sqrt(query.shape[1])
    answer = (masked_weights(logits, mask).unsqueeze(-1) * values).sum(dim=1).flatten(1)
    return block.norm(block.output_projection(answer)), logits


def product(a, b):
    return [[dot(row, column) for column in zip(*b, strict=True)] for row in a]


def transpose(a):
    return [list(row) for row in zip(*a, strict=True)]


def combine(scale, matrix):
    """scale · I − matrix."""
    return [[scale * (i == j) - v for j, v in enumerate(row)] for i, row in enumerate(matrix)]


def inverse_loop(matrices):
    columns = max(sum(abs(v) for v in column) for matrix in matrices for column in transpose(matrix))
    rows = max(sum(abs(v) for v in row) for matrix in matrices for row in matrix)
    inverses = []
    for matrix in matrices:
        z = [[v / (columns * rows) for v in row] for row in transpose(matrix)]
        for _ in range(6):
            az = product(matrix, z)
            step = product(z, combine(13, product(az, combine(15, product(az, combine(7, az))))))
            z = [[v / 4 for v in row] for row in step]
        inverses.append(z)
    return inverses


def nystrom_loop(layer, tokens):
    """Tokens after attention, and the first token's logits, one head and one token at a time."""
    heads, m, width = layer.num_heads, layer.num_landmarks, len(tokens[0])
    e = width // heads
    length = math.ceil(len(tokens) / m)
    before = length * m - len(tokens)
    rows = [linear(layer.qkv, row) for row in [[0.0] * width] * before + tokens]
    per_head = []
    for head in range(heads):
        q, k, v = ([row[part * width + head * e :][:e] for row in rows] for part in range(3))
        q = [[x / math.sqrt(e) for x in row] for row in q]
        ql, kl = (
            [[sum(column) / length for column in zip(*x[i * length : (i + 1) * length], strict=True)] for i in range(m)]
            for x in (q, k)
        )
        first, second, third = (
            [softmax([dot(a, b) for b in right]) for a in left] for left, right in ((q, kl), (ql, kl), (ql, k))
        )
        per_head.append((q, k, v, first, second, third))
    inverses = inverse_loop([parts[4] for parts in per_head])
    out, logits = [[] for _ in rows], [[] for _ in rows]
    for head, (q, k, v, first, _, third) in enumerate(per_head):
        mixed = product(product(first, inverses[head]), product(third, v))
        taps = layer.convolution.weight[head, 0, :, 0].tolist()
        for place in range(len(rows)):
            for tap, weight in enumerate(taps):
                other = place + tap - 16
                if 0 <= other < len(rows):
                    mixed[place] = [a + weight * b for a, b in zip(mixed[place], v[other], strict=True)]
            out[place] += mixed[place]
            logits[place].append(dot(q[before], k[place]))
    return [linear(layer.output_projection, row) for row in out[before:]], logits[before:]
