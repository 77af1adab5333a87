"""Where should the parts of a PyTorch model run? Two towers; no step is run.

`torch.export` gives the graph of the model with its gradients, from shapes alone. The item tower
is on the second device, its gradients, as autograd runs them, with it.

    python scripts/place_torch.py
    python scripts/place_torch.py --gpus 2xV100 --link nvlink2
"""

import warnings
from collections.abc import Sequence

import torch
from placing import parse, show
from torch import Tensor, nn

from gpuprof.place.from_programs import step_of_export

BATCH, LENGTH, WORDS, WIDTH, FEATURES = 128, 200, 5000, 64, 32


class Tower(nn.Module):
    """Embedding, convolution, pooling and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.convolution = nn.Conv1d(WIDTH, WIDTH, 3)
        self.dense = nn.Linear(WIDTH, FEATURES)

    def forward(self, words: Tensor) -> Tensor:
        """The features of a batch of reviews."""
        convolved = torch.tanh(self.convolution(self.embedding(words).transpose(1, 2)))
        return torch.relu(self.dense(convolved.amax(2)))


class Model(nn.Module):
    """Two towers and a head, which gives the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.user, self.item, self.head = Tower(), Tower(), nn.Linear(2 * FEATURES, 1)

    def forward(self, user: Tensor, item: Tensor, ratings: Tensor) -> Tensor:
        """Mean squared error of a batch."""
        features = torch.cat([self.user(user), self.item(item)], 1)
        return torch.mean((self.head(features) - ratings) ** 2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Say what the step copies, and where its parts should be."""
    from torch.export.experimental import _export_forward_backward  # noqa: PLC0415 - may go

    options = parse(__doc__, arguments)
    words = torch.zeros(BATCH, LENGTH, dtype=torch.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's warnings about its own API
        exported = torch.export.export(Model(), (words, words, torch.zeros(BATCH, 1)))
        joint = _export_forward_backward(exported)
    show("place_torch.py", step_of_export(joint, {"": "0", "item": "1"}), options)


if __name__ == "__main__":
    main()
