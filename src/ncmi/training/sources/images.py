"""Images as what a run learns from: their parts, loaders and networks."""

from typing import Any

from torch import nn

from ncmi.data import (
    Augment,
    BatchViews,
    CenterCrop,
    FolderLoader,
    FolderSet,
    ImageSet,
    ImageViews,
    Normalize,
    RandomResizedCrop,
    TensorLoader,
    load_data,
    split_off,
    stratified_subset,
)
from ncmi.data.loaders import Loader
from ncmi.models import create_model
from ncmi.training.config import Config
from ncmi.training.processes import Processes
from ncmi.training.sources.base import Source


class ImageSource(Source):
    """A data set of images, divided as the config says: validation first, then the training size."""

    def __init__(self, config: Config):
        data = config.data
        splits = load_data(data.name, data.folder, **data.options)
        train, validation = splits.train, splits.validation
        if validation is None and data.validation:
            held_out = int(data.validation) if data.validation >= 1 else data.validation
            split = split_off(train.targets, held_out, data.split_seed)
            train, validation = train.subset(split.kept), train.subset(split.held_out)
        if data.train_size is not None:
            if data.train_size > len(train):
                raise ValueError(
                    f"data: train_size={data.train_size} is more than the {len(train)} training samples of {data.name} that "
                    "remain beside the validation part. Lower it."
                )
            train = train.subset(stratified_subset(train.targets, data.train_size, data.split_seed))
        self.config, self.statistics = config, splits.statistics
        super().__init__(splits.class_names, train, validation, splits.parts.get("test"))

    def train_loader(self, processes: Processes, views: int = 1) -> Loader:
        """Shuffled, augmented batches, with as many views of each image as the loss wants.

        An incomplete last batch is left out, unless the whole set is smaller than a batch.
        """
        config, data = self.config, self.config.data
        settings: dict[str, Any] = {
            "drop_last": len(self.train) >= config.batch_size,
            "seed": config.seed,
            **processes.place,
        }
        if isinstance(self.train, FolderSet):
            crop, normalize = RandomResizedCrop(data.train_resolution, flip=data.flip), Normalize(*self.statistics)
            if views > 1:
                crop, normalize = ImageViews(crop, views), BatchViews(normalize, views)
            return FolderLoader(self.train, crop, normalize, config.batch_size, num_workers=data.workers, **settings)
        if views > 1 and not (data.crop or data.flip or data.rotation):
            raise ValueError(
                f"data: {config.loss.name} compares {views} views of each image, which are equal without random augmentation. "
                f"Set data.crop, data.flip or data.rotation as suits {data.name}, such as data.crop=2."
            )
        _, height, width = self.train.image_shape
        if data.crop >= min(height, width):
            raise ValueError(
                f"data: crop={data.crop} would move images of {height} × {width} pixels out of sight. Lower it."
            )
        augment = Augment(*self.statistics, crop=data.crop, flip=data.flip, rotation=data.rotation)
        transform = BatchViews(augment, views) if views > 1 else augment
        return TensorLoader(self.train, transform, config.batch_size, **settings)

    def test_loader(self, part: ImageSet | FolderSet, processes: Processes) -> Loader:
        """A part in order, as it is."""
        settings: dict[str, Any] = {"shuffle": False, **processes.place}
        normalize, batch_size = Normalize(*self.statistics), max(self.config.test_batch_size, processes.size)
        if isinstance(part, FolderSet):
            crop = CenterCrop(self.config.data.test_resolution)
            return FolderLoader(part, crop, normalize, batch_size, num_workers=self.config.data.workers, **settings)
        return TensorLoader(part, normalize, batch_size, **settings)

    def make_network(self) -> nn.Module:
        """The config's network for these images, with random weights."""
        model = self.config.model
        options = dict(model.options)
        if isinstance(self.train, ImageSet):
            channels, height, width = self.train.image_shape
            sizes = {"in_channels": channels, "in_features": channels * height * width}
        else:
            sizes = {"in_channels": 3, "in_features": 3 * self.config.data.train_resolution**2}
        if model.name == "mlp":
            options.setdefault("in_features", sizes["in_features"])
        elif ":" not in model.name or (model.name.startswith("timm:") and sizes["in_channels"] != 3):
            options.setdefault("in_channels", sizes["in_channels"])
        return create_model(model.name, **options)
