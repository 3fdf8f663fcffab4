"""Splits: no slide and no patient in two parts, classes in proportion, the same on every machine and in any order."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_bags import made_set, write_clam, write_csv, write_splits

from ncmi.data.bags import (
    BagSplit,
    bracs_split,
    camelyon17_split,
    check_split,
    clam_split,
    load_bags,
    patient_folds,
    split_off_patients,
)
from ncmi.data.bags.patients import assign_patients


def parts_of(split):
    return [part.tolist() for part in split]


def cohort(seed, people=60, classes=3):
    """Targets and patients: mostly one slide a patient, some with many, classes of unequal size."""
    generator = torch.Generator().manual_seed(seed)
    targets, patients = [], []
    for person in range(people):
        label = min(int(torch.randint(2 * classes, (), generator=generator)), classes - 1)
        slides = int(torch.randint(1, 4, (), generator=generator)) if person % 4 else 1
        for _ in range(slides):
            targets.append(label if torch.rand((), generator=generator) < 0.9 else 0)
            patients.append(f"p{person}")
    return targets, patients


def test_clam_files(tmp_path):
    bags = load_bags(write_clam(tmp_path))
    write_splits(tmp_path / "splits")
    assert parts_of(clam_split(bags, 0)) == [[0, 1], [2], [3]]
    write_splits(tmp_path / "other", fold=7, train=("s3.svs", "s1", "s2"), val=(), test=())
    assert parts_of(clam_split(bags, 7, tmp_path / "other")) == [[0, 1, 2], [], []]


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"train": ("s1", "s2", "s4")}, r"no slide may be in two parts .* 's4' is in train and in test"),
        (
            {"train": ("s1",), "val": ("s2",), "test": ("s3",)},
            r"no patient may be in two parts .* 'p1' is in train and in val",
        ),
        ({"train": ("s1", "s1")}, "names slide 's1' twice in train"),
        ({"test": ("s9",)}, "must name slides of .* in test 's9' are none"),
        ({"train": ()}, "the training part must not be empty"),
    ],
)
def test_bad_clam_files_get_a_sentence(tmp_path, parts, sentence):
    bags = load_bags(write_clam(tmp_path))
    write_splits(tmp_path / "splits", **parts)
    with pytest.raises(ValueError, match=sentence):
        clam_split(bags, 0)


def test_clam_files_that_cannot_be_read_get_a_sentence(tmp_path):
    bags = load_bags(write_clam(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"splits_3\.csv is missing\. Pass the folder"):
        clam_split(bags, 3)
    write_csv(tmp_path / "splits" / "splits_3.csv", ("train", "test"), [("s1", "s3")])
    with pytest.raises(ValueError, match="must have the columns train, val and test; it has no 'val'"):
        clam_split(bags, 3)
    with pytest.raises(ValueError, match="made has no folder of its own; pass folder"):
        clam_split(made_set([0, 1]), 0)


def test_published_splits_made_by_slide_can_be_read(tmp_path):
    bags = load_bags(write_clam(tmp_path))
    write_splits(tmp_path / "splits", train=("s1",), val=("s2",), test=("s3", "s4"))
    assert parts_of(clam_split(bags, 0, by_patient=False)) == [[0], [1], [2, 3]]


def test_slides_that_were_left_out_may_be_in_a_file(tmp_path):
    write_splits(write_clam(tmp_path) / "splits")
    assert parts_of(clam_split(load_bags(tmp_path, leave_out=["s2"]), 0)) == [[0], [1], [2]]


@given(seed=st.integers(0, 1000), num_folds=st.integers(3, 10))
def test_folds_keep_patients_together_and_classes_in_proportion(seed, num_folds):
    targets, patients = cohort(seed)
    bags = made_set(targets, patients)
    splits = patient_folds(bags, num_folds, seed)
    assert len(splits) == num_folds
    assert sorted(index for split in splits for index in split.test.tolist()) == list(range(len(bags)))
    counts = torch.bincount(bags.targets)
    for fold, split in enumerate(splits):
        check_split("test", bags, split)
        assert sorted(index for part in parts_of(split) for index in part) == list(range(len(bags)))
        assert torch.equal(split.validation, splits[(fold + 1) % num_folds].test)
        # A patient has up to three slides, so a fold can be that far from its share.
        shares = torch.bincount(bags.targets[split.test], minlength=len(counts))
        assert (shares - counts / num_folds).abs().max() <= 3


def test_folds_of_single_slides_are_exactly_stratified():
    bags = made_set([0] * 70 + [1] * 20 + [2] * 10)
    for split in patient_folds(bags, 10):
        assert torch.bincount(bags.targets[split.test]).tolist() == [7, 2, 1]


@pytest.mark.parametrize("seed", range(8))
def test_patients_with_many_slides_are_placed_first(seed):
    patients = ["many"] * 8 + ["some"] * 5 + [f"p{index}" for index in range(27)]
    parts = assign_patients(patients, torch.zeros(40, dtype=torch.int64), (1, 1, 1, 1), seed)
    assert torch.bincount(parts).tolist() == [10, 10, 10, 10]


def test_folds_depend_on_the_seed_and_not_on_the_order_of_the_table():
    targets, patients = cohort(1)
    bags = made_set(targets, patients)
    order = torch.randperm(len(bags))
    splits, turned = patient_folds(bags, 5), patient_folds(bags.subset(order), 5)
    assert [part.tolist() for part in splits[2]] == [order[part].sort().values.tolist() for part in turned[2]]
    assert parts_of(splits[0]) != parts_of(patient_folds(bags, 5, seed=1)[0])


def test_folds_are_the_same_everywhere():
    parts = assign_patients([f"p{i}" for i in range(12)], torch.tensor([0] * 8 + [1] * 4), (1, 1, 1), seed=3)
    assert parts.tolist() == [2, 2, 0, 2, 0, 1, 1, 0, 2, 0, 1, 1]


@given(seed=st.integers(0, 1000), held_out=st.sampled_from([0.1, 0.2, 0.35, 0.5]))
def test_whole_patients_are_split_off_in_proportion(seed, held_out):
    targets, patients = cohort(seed)
    bags = made_set(targets, patients)
    kept, out = split_off_patients(bags, held_out, seed)
    assert sorted([*kept.tolist(), *out.tolist()]) == list(range(len(bags)))
    check_split("test", bags, BagSplit(kept, out, out[:0]))
    counts = torch.bincount(bags.targets)
    assert (torch.bincount(bags.targets[out], minlength=3) - counts * held_out).abs().max() <= 3


def test_a_class_of_one_patient_is_kept_for_training():
    bags = made_set([0] * 20 + [1])
    assert 20 in split_off_patients(bags, 0.2).kept.tolist()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda bags: patient_folds(bags, 2), r"num_folds must lie in \[3, 20\]"),
        (lambda bags: patient_folds(bags, 21), r"num_folds must lie in \[3, 20\]"),
        (lambda bags: patient_folds(bags, 3), "the training part must have bags of every class; it lacks 'class 1'"),
        (lambda bags: split_off_patients(bags, 1.0), r"held_out must be a fraction in \(0, 1\); got 1.0"),
        (lambda bags: split_off_patients(bags, 1e-5), r"held_out must lie in \[0.001, 0.999\]"),
        (lambda bags: split_off_patients(bags, 0.001), "0.001 of made is less than one of its 20 patients"),
    ],
)
def test_parts_that_cannot_be_made_get_a_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call(made_set([0] * 19 + [1]))


# Per centre: negative, ITC, micro, macro.
CAMELYON17 = ((64, 11, 10, 15), (58, 7, 23, 12), (75, 2, 8, 15), (60, 8, 13, 19), (61, 8, 5, 26))


def camelyon17(with_column=True):
    """500 slides with the classes of each centre, five nodes a patient."""
    targets = []
    for center, sizes in enumerate(CAMELYON17):
        labels = [label for label, size in enumerate(sizes) for _ in range(size)]
        targets += [labels[i] for i in torch.randperm(100, generator=torch.Generator().manual_seed(center)).tolist()]
    patients = [f"patient_{index // 5:03d}" for index in range(500)]
    columns = {"center": tuple(str(index // 100) for index in range(500))} if with_column else {}
    return made_set(targets, patients, columns)


@pytest.mark.parametrize("with_column", [True, False])
def test_camelyon17_by_centre(with_column):
    bags = camelyon17(with_column)
    split = camelyon17_split(bags, seed=4)
    assert split.test.tolist() == list(range(300, 500))
    assert torch.bincount(bags.targets[split.test]).tolist() == [121, 16, 18, 45]
    assert sorted([*split.train.tolist(), *split.validation.tolist()]) == list(range(300))
    assert 25 <= len(split.validation) <= 35
    assert torch.bincount(bags.targets[split.validation], minlength=4).min() >= 1  # a tenth of 20 ITC slides is two
    assert parts_of(camelyon17_split(bags, seed=4)) == parts_of(split)
    assert parts_of(camelyon17_split(bags, seed=5)) != parts_of(split)


def test_camelyon17_does_not_depend_on_the_order_of_the_table():
    bags = camelyon17()
    order = torch.randperm(500)
    turned = camelyon17_split(bags.subset(order), seed=4)
    expected = parts_of(camelyon17_split(bags, seed=4))
    assert [order[part].sort().values.tolist() for part in turned] == expected


def test_a_patient_of_two_centres_gets_a_sentence():
    bags = made_set(
        [0, 1, 0, 1] * 5,
        ["p"] * 2 + [f"q{i}" for i in range(18)],
        {"center": ("0", "3") * 2 + ("0", "0", "3", "3") * 4},
    )
    with pytest.raises(ValueError, match=r"camelyon17_split: no patient may be in two parts .* 'p' is in"):
        camelyon17_split(bags, validation=0.3)


def test_camelyon17_without_centres_gets_a_sentence():
    with pytest.raises(ValueError, match="neither the column center nor patients numbered 000 to 099; got 'slide_x'"):
        camelyon17_split(made_set([0, 1], slides=["slide_x", "slide_y"]))
    with pytest.raises(ValueError, match="some centres must be for the test and some for training; made has '0'"):
        camelyon17_split(made_set([0, 1], columns={"center": ("0", "0")}))


def test_bracs_official():
    parts = ("train",) * 395 + ("val",) * 65 + ("test",) * 87
    bags = made_set([index % 3 for index in range(547)], columns={"split_info": parts})
    split = bracs_split(bags)
    assert [len(part) for part in split] == [395, 65, 87]
    assert split.test.tolist() == list(range(460, 547))
    with pytest.raises(ValueError, match="split_info of slide_1 must be one of 'train', 'val', 'test'; got 'text'"):
        bracs_split(made_set([0, 1], columns={"split_info": ("train", "text")}))
    with pytest.raises(ValueError, match="must have the column split_info with train, val or test; it has 'center'"):
        bracs_split(made_set([0, 1], columns={"center": ("0", "1")}))
    with pytest.raises(ValueError, match="no patient may be in two parts"):
        bracs_split(made_set([0, 1], ["p", "p"], columns={"split_info": ("train", "test")}))
