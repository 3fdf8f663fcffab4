"""Bags of instances for multiple-instance learning: whole slides as features, classic sets, splits and training groups.

HDF5 files need h5py, which is imported when one is read.
"""

from ncmi.data.bags.bag_set import Bag, BagReader, BagSet, HeldBags
from ncmi.data.bags.groups import GroupPlan
from ncmi.data.bags.layouts import LAYOUTS
from ncmi.data.bags.loader import BagBatch, BagLoader, pack
from ncmi.data.bags.registry import BAG_SETS, FoundBags, find_bags, has_made_up_coordinates, load_bags
from ncmi.data.bags.splits import (
    BagSplit,
    bracs_split,
    camelyon17_split,
    check_split,
    clam_split,
    patient_folds,
    split_off_patients,
)

__all__ = [
    "BAG_SETS",
    "LAYOUTS",
    "Bag",
    "BagBatch",
    "BagLoader",
    "BagReader",
    "BagSet",
    "BagSplit",
    "FoundBags",
    "GroupPlan",
    "HeldBags",
    "bracs_split",
    "camelyon17_split",
    "check_split",
    "clam_split",
    "find_bags",
    "has_made_up_coordinates",
    "load_bags",
    "pack",
    "patient_folds",
    "split_off_patients",
]
