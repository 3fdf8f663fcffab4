"""Data sets as bytes, batches from them, and augmentation that is a function of seed, epoch and sample.

What only some sets need (scikit-learn, Pillow) is imported when such a set is read.
"""

from ncmi.data.augment import Augment
from ncmi.data.crops import CenterCrop, RandomResizedCrop
from ncmi.data.files import FileCheck, Found
from ncmi.data.fitted import fit_images
from ncmi.data.flips import Flips, flip_labels
from ncmi.data.folder import FolderSet
from ncmi.data.images import ImageSet
from ncmi.data.loaders import Batch, FolderLoader, TensorLoader
from ncmi.data.normalize import STATISTICS, Normalize, Statistics, image_statistics
from ncmi.data.registry import DATA_SETS, DataSplits, check_data, find_data, load_data
from ncmi.data.splits import Split, split_off, stratified_subset
from ncmi.data.views import BatchViews, ImageViews

__all__ = [
    "DATA_SETS",
    "STATISTICS",
    "Augment",
    "Batch",
    "BatchViews",
    "CenterCrop",
    "DataSplits",
    "FileCheck",
    "Flips",
    "FolderLoader",
    "FolderSet",
    "Found",
    "ImageSet",
    "ImageViews",
    "Normalize",
    "RandomResizedCrop",
    "Split",
    "Statistics",
    "TensorLoader",
    "check_data",
    "find_data",
    "fit_images",
    "flip_labels",
    "image_statistics",
    "load_data",
    "split_off",
    "stratified_subset",
]
