"""The real bags: TCGA lung and breast in CLAM's layout, and the classic sets."""

import pytest
import torch

from ncmi.data.bags import BagLoader, clam_split, load_bags, patient_folds

# Bags, patients, bags of each class, instances in all.
TCGA = {"tcga-lung": (958, 862, [492, 466], 42095), "tcga-brca": (875, 837, [726, 149], 25986)}
# Bags, bags of each class, instances, width.
CLASSIC = {
    "musk1": (92, [45, 47], 476, 166),
    "musk2": (102, [63, 39], 6598, 166),
    "fox": (200, [100, 100], 1320, 230),
    "tiger": (200, [100, 100], 1220, 230),
    "elephant": (200, [100, 100], 1391, 230),
    "ucsb-breast": (58, [32, 26], 2002, 708),
}


@pytest.mark.parametrize("name", TCGA)
def test_tcga(real_bags, name):
    bags = load_bags(name, real_bags("tcga"), preload=True)
    count, patients, classes, instances = TCGA[name]
    assert (len(bags), len(set(bags.patients)), bags.in_features) == (count, patients, 192)
    assert torch.bincount(bags.targets).tolist() == classes
    sizes = [len(bags.bag(index).instances) for index in range(count)]
    assert sum(sizes) == instances
    assert bags.bag(0).instances.dtype == torch.float16
    assert bags.bag(0).coordinates.shape == (sizes[0], 2)

    for fold in range(10):
        split = clam_split(bags, fold)
        assert sum(map(len, split)) == count
        assert len(split.train) > 0.6 * count

    for split in patient_folds(bags, 10):
        share = bags.targets[split.test].double().mean()
        assert abs(float(share) - classes[1] / count) < 0.02
        assert abs(len(split.test) - count / 10) < 4

    train = bags.subset(clam_split(bags, 0).train)
    loader = BagLoader(train)
    batches = list(loader)
    assert sum(len(batch.targets) for batch in batches) == len(train)
    assert all(len(batch.targets.unique()) == 2 for batch in batches)
    assert {len(batch.targets) for batch in batches} <= {15, 16}


@pytest.mark.parametrize("name", CLASSIC)
def test_classic_sets(real_bags, name):
    bags = load_bags(name, real_bags("mil"))
    count, classes, instances, width = CLASSIC[name]
    assert (len(bags), bags.in_features) == (count, width)
    assert torch.bincount(bags.targets).tolist() == classes
    assert sum(len(bags.bag(index).instances) for index in range(count)) == instances
    assert bags.bag(0).instances.dtype == torch.float32
    assert len(patient_folds(bags, 10)) == 10
