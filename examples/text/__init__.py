# SPDX-License-Identifier: Apache-2.0
"""What the text examples share: characters of some pages, and an LSTM that guesses the next one."""

from __future__ import annotations

from pathlib import Path

import torch

LENGTH = 64  # characters of a sequence
PAGES = Path(__file__).resolve().parents[2] / "doc"


def load(folder: Path = PAGES) -> tuple[torch.Tensor, int]:
    """All characters of the folder's pages as numbers, and how many different ones there are."""
    text = "".join(path.read_text() for path in sorted(folder.glob("*.md")))
    if len(text) < 100 * LENGTH:
        raise SystemExit(f"{folder}: expected pages (*.md) with {100 * LENGTH} characters")
    alphabet = {character: number for number, character in enumerate(sorted(set(text)))}
    return torch.tensor([alphabet[character] for character in text]), len(alphabet)


def batch(text: torch.Tensor, size: int, generator: torch.Generator) -> torch.Tensor:
    """Sequences that begin anywhere."""
    starts = torch.randint(len(text) - LENGTH - 1, (size,), generator=generator)
    return torch.stack([text[start : start + LENGTH + 1] for start in starts.tolist()])


class Model(torch.nn.Module):
    """An embedding, an LSTM and a linear layer."""

    def __init__(self, characters: int, width: int = 128) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(characters, width // 2)
        self.lstm = torch.nn.LSTM(width // 2, width, batch_first=True)
        self.last = torch.nn.Linear(width, characters)

    def forward(self, sequences: torch.Tensor) -> torch.Tensor:
        """The mean cross entropy of each next character, in nats."""
        hidden, _ = self.lstm(self.embedding(sequences[:, :-1]))
        scores = self.last(hidden)
        return torch.nn.functional.cross_entropy(
            scores.reshape(-1, scores.shape[-1]), sequences[:, 1:].reshape(-1)
        )
